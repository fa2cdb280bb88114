"""What was made of constant tensors, kept with the first of them.

    kept(make, key, w, b) = make(w, b)

Packing weights takes longer than a product with them. So the second call that asks for
the same keeps what it made, and a copy of the bytes it was made of, in `w`; it is gone
when `w` is. Anybody may write into a buffer, through a view, `.codes`, DLPack or an
address, and no flag would tell. So each call compares all bytes with the copy, and
makes anew what differs: a result never depends on what was kept.

    memory    MOST times the bytes of w and b, and what was made
"""

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from mdtensor import MdtensorError, OptionError, Tensor
from mdtensor.kernels.cpu.kernel_set import CHOSEN
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import EXACT

Made = TypeVar("Made")
#: Entries of one tensor; the oldest goes.
MOST = 2
#: Bytes of arrays that are compared by copies: of any layout, and of C order.
SMALL, MEDIUM = 1 << 11, 1 << 16


class Entry(NamedTuple):
    """One thing that was asked for.

    Args:
        key: what it depends on beside the tensors.
        copies: of the tensors, or None while it was asked for once.
        made: of the copies.
    """

    key: Any
    copies: tuple[Any, ...] | None = None
    made: Any = None


# All bytes are compared at each call, because NumPy and DLPack write without our
# knowledge (decision 0033).
def kept(make: Callable[..., Made], key: tuple[Any, ...], w: Any, *rest: Any) -> Made:
    """make(w, *rest), from `w` if it was made before of the same bytes.

    Args:
        make: without effects, the same for the same key and bytes.
        key: all that it depends on beside the bytes and the runway; immutable, grids
            by their `key`.
        w, rest: tensors or None.
    """
    given = (w, *rest)
    if not all(x is None or isinstance(x.buffer, np.ndarray) for x in given):
        return make(*given)
    place = CHOSEN.get().name  # weights are packed for a runway
    full = (place, *key, *map(_facts, given))
    old = next((entry for entry in w.kept if entry.key == full), None)
    if old is not None and old.copies is not None:
        if all(map(_same, old.copies, given)):
            found: Made = old.made
            return found
        old = None
    copies = None if old is None else deepcopy(given)
    made = make(*(given if copies is None else copies))
    others = [entry for entry in w.kept if entry.key != full]
    last = Entry(full)
    if copies is not None:  # which say on what grids they are, whoever changed `w` now
        last = Entry((place, *key, *map(_facts, copies)), copies, made)
    w.kept = (*others, last)[-MOST:]
    return made


# A bound call knows types, shapes and grids, so the bytes alone are compared here
# (decision 0048).
def packed(make: Callable[..., Made], w: Any, b: Any = None) -> Made:
    """Return make(w, b), from `w` if it was made before of the same bytes.

    Args:
        make: of a bound call, which says all that it depends on but the bytes.
        w, b: of the types, shapes and grids that are bound; no bias is None.
    """
    for entry in w.kept:
        if entry.key is make and entry.copies is not None:
            of_w, of_b = entry.copies
            if _is_twin(of_w, w) and (b is None or _is_twin(of_b, b)):
                found: Made = entry.made
                return found
    is_second = any(entry.key is make for entry in w.kept)
    copies = deepcopy((w, b)) if is_second else None
    made = make(*(copies or (w, b)))
    others = [entry for entry in w.kept if entry.key is not make]
    w.kept = (*others, Entry(make, copies, made if copies else None))[-MOST:]
    return made


def _is_twin(copy: Any, x: Any) -> bool:
    # Another thread may have given `x` another grid after the call was bound.
    on_one = copy.qparams is x.qparams or copy.qparams.key == x.qparams.key
    return on_one and _same_bytes(copy.buffer, x.buffer)


def _facts(x: Any) -> Any:
    """What says, beside its bytes, which tensor `x` is."""
    if x is None:
        return None
    grid: QParams | None = getattr(x, "qparams", None)
    return type(x), x.shape, None if grid is None else grid.key


def _same(copy: Tensor | None, x: Tensor | None) -> bool:
    if copy is None or x is None:
        return copy is x
    return _same_bytes(copy.buffer, x.buffer)


def _same_bytes(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Whether arrays of numbers of at most 8 bytes hold the same, bit for bit."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    # Few bytes are copied and compared sooner than views are made of them.
    if b.nbytes <= SMALL or (b.nbytes <= MEDIUM and _are_in_order(a, b)):
        return a.tobytes() == b.tobytes()
    # As they lie: a turned view column by column would take ten times as long.
    order = sorted(range(b.ndim), key=lambda axis: -abs(b.strides[axis]))
    a, b, width = a.transpose(order), b.transpose(order), f"u{a.itemsize}"
    if a.flags.c_contiguous and b.flags.c_contiguous and a.nbytes % 8 == 0:
        a, b, width = a.reshape(-1), b.reshape(-1), "u8"
    return bool(np.array_equal(a.view(width), b.view(width)))


def _are_in_order(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.flags.c_contiguous and b.flags.c_contiguous


# Where compiled kernels end: what they cannot hold goes to exact integers.
#
# A kernel rounds to 8-bit codes, by ratios of scales within its limits
# (`kernels/rescale.py`). Past them a method computes on 64-bit integers instead, and a
# plan calls the method: the results are the same.

Step = TypeVar("Step")


class NotCompiled(OptionError):
    """No kernel holds this; integers do."""


def compiled(make: Callable[[], Step]) -> Step:
    """The step that `make` builds.

    Raises:
        NotCompiled: the kernels do not hold its ratios.
    """
    try:
        return make()
    except MdtensorError:
        raise
    except ValueError as error:
        raise NotCompiled(str(error).rstrip(".")) from None


def held(grid: QParams) -> QParams:
    """`grid`, of codes that a step reads: of 8 bits or fewer.

    Raises:
        NotCompiled: they have more.
    """
    if grid.dtype.bits > 8:
        raise NotCompiled(f"a compiled step reads codes of 8 bits, not {grid.dtype}")
    return grid


def narrow(out: QParams | None) -> QParams:
    """`out`, the grid of the 8-bit codes that a step writes.

    Raises:
        NotCompiled: it is none.
    """
    is_whole = out is not None and out.axis is None and not out.narrow_range
    if out is None or not is_whole or out.dtype not in (qint8, quint8):
        raise NotCompiled("a compiled step rounds to one grid of 8-bit codes")
    if out.rounding not in (None, EXACT):
        raise NotCompiled(f"it is rounded by {out.rounding!r}, compiled steps exactly")
    return out


def whole(x: Any) -> QParams:
    """The grid of the argument `x` of a step, a spec or tensor.

    Raises:
        NotCompiled: scales differ along an axis, or codes have more than 8 bits.
    """
    grid = held(x.qparams)
    if grid.axis is not None:
        raise NotCompiled("a compiled step reads codes on one grid each")
    return grid


def attempt(prepare: Callable[..., Step], *arguments: Any, **options: Any) -> Any:
    """`prepare(...)`, or None if no kernel holds it."""
    try:
        return prepare(*arguments, **options)
    except NotCompiled:
        return None


def step_of_codes(prepare: Callable[..., Step], *given: Any, out: QParams) -> Any:
    """As `attempt`, of specs and functions: calls with equal ones share the step.

    Equal grids may differ in their rule, so that of `out` counts too.
    """
    return _known(CHOSEN.get().name, out.rounding, prepare, *given, out=out)


@lru_cache(maxsize=1024)
def _known(
    _place: str, _rule: str | None, prepare: Callable[..., Step], *given: Any, out: Any
) -> Any:
    return attempt(prepare, *given, out=out)
