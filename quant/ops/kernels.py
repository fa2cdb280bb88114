"""Cache of packed weights, stored on the weight tensor, and limits of the kernels.

    reuse_or_make(make, key, w, b) = make(w, b)

Packing weights takes longer than multiplying with them. So the second call with equal
weights stores the packed form on `w`, with a copy of the bytes that were packed; the
cache is freed with `w`. Anybody may write into a buffer, through a view, `.codes`,
DLPack or an address, and no flag shows it. So each call compares all bytes with the
copy and packs anew after any change: a result never depends on the cache.

    memory    at most MOST times the bytes of w and b, and of their packed form
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
from mdtensor.quant.tensor import QuantizedTensor

Made = TypeVar("Made")
#: The largest number of entries of one tensor; a new one replaces the oldest.
MOST = 2
#: Arrays of at most SMALL bytes are compared as `bytes`, and of MEDIUM in C order.
SMALL, MEDIUM = 1 << 11, 1 << 16


class Entry(NamedTuple):
    """One entry of the cache of a weight tensor.

    Args:
        key: everything that the packed form depends on, except the tensors' bytes.
        copies: copies of the tensors; None after the first call.
        made: the packed form of the copies.
    """

    key: object
    copies: tuple[Any, ...] | None = None
    made: Any = None


# All bytes are compared at each call, because NumPy and DLPack write without our
# knowledge (decision 0033).
def reuse_or_make(
    make: Callable[..., Made],
    key: tuple[object, ...],
    w: QuantizedTensor,
    *rest: Tensor | None,
) -> Made:
    """Return make(w, *rest), from the cache of `w` if its bytes are unchanged.

    Args:
        make: a function without side effects, whose result depends only on the key and
            the bytes.
        key: everything that the result depends on, except the bytes and the ISA;
            immutable, with grids by their `key`.
        w: the tensor that carries the cache.
        rest: more tensors, or None.
    """
    given = (w, *rest)
    # Bytes on a device cannot be compared without a copy to the host.
    if not all(x is None or isinstance(x.buffer, np.ndarray) for x in given):
        return make(*given)
    # Kernel sets pack weights in different layouts.
    isa = CHOSEN.get().name
    full = (isa, *key, *map(_identity, given))
    old = next((entry for entry in w.kept if entry.key == full), None)
    if old is not None and old.copies is not None:
        if all(map(_is_same, old.copies, given)):
            found: Made = old.made
            return found
        old = None
    # The first call stores its key only: weights that are used once need no copy.
    copies = None if old is None else deepcopy(given)
    made = make(*(given if copies is None else copies))
    others = [entry for entry in w.kept if entry.key != full]
    last = Entry(full)
    if copies is not None:
        # The grids come from the copies, since another thread may have changed `w`.
        last = Entry((isa, *key, *map(_identity, copies)), copies, made)
    w.kept = (*others, last)[-MOST:]
    return made


# A bound call knows types, shapes and grids, so the bytes alone are compared here
# (decision 0048).
def reuse_or_pack(
    make: Callable[..., Made], w: QuantizedTensor, b: QuantizedTensor | None = None
) -> Made:
    """Return make(w, b), from the cache of `w` if its bytes are unchanged.

    Args:
        make: a function of one bound call, whose result depends only on the bytes.
        w, b: tensors of the types, shapes and grids of that call; b may be None.
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


def _is_twin(copy: QuantizedTensor, x: QuantizedTensor) -> bool:
    # Another thread may have given `x` another grid after the call was bound.
    on_one = copy.qparams is x.qparams or copy.qparams.key == x.qparams.key
    return on_one and _has_same_bytes(copy.buffer, x.buffer)


def _identity(x: Tensor | None) -> tuple[object, ...] | None:
    """Return type, shape and grid of `x`: what the cache compares except its bytes."""
    if x is None:
        return None
    grid: QParams | None = getattr(x, "qparams", None)
    return type(x), x.shape, None if grid is None else grid.key


def _is_same(copy: Tensor | None, x: Tensor | None) -> bool:
    if copy is None or x is None:
        return copy is x
    return _has_same_bytes(copy.buffer, x.buffer)


def _has_same_bytes(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    """Return whether two arrays are equal bit for bit, up to 8 bytes each."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    # For few bytes, copying and comparing is faster than making views.
    if b.nbytes <= SMALL or (b.nbytes <= MEDIUM and _are_in_order(a, b)):
        return a.tobytes() == b.tobytes()
    # Compare in memory order: a transposed view, column by column, takes ten times as
    # long.
    order = sorted(range(b.ndim), key=lambda axis: -abs(b.strides[axis]))
    a, b, width = a.transpose(order), b.transpose(order), f"u{a.itemsize}"
    # As integers, since NaN does not equal itself and -0.0 equals 0.0.
    if a.flags.c_contiguous and b.flags.c_contiguous and a.nbytes % 8 == 0:
        a, b, width = a.reshape(-1), b.reshape(-1), "u8"
    return bool(np.array_equal(a.view(width), b.view(width)))


def _are_in_order(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    return a.flags.c_contiguous and b.flags.c_contiguous


# A kernel rounds to 8-bit codes, by ratios of scales within its limits
# (`kernels/rescale.py`). Beyond these limits a method computes with 64-bit integers,
# and a plan calls the method, so the results are the same.

Step = TypeVar("Step")


class NotCompiled(OptionError):
    """Raised if no kernel can compute a step; integer arithmetic replaces it."""


def make_step(make: Callable[[], Step]) -> Step:
    """Return the step that `make` builds.

    Raises:
        NotCompiled: the ratios are outside the limits of the kernels.
    """
    try:
        return make()
    # An MdtensorError may be a ValueError too, and is an error of the user's call.
    except MdtensorError:
        raise
    except ValueError as error:
        raise NotCompiled(str(error).rstrip(".")) from None


def require_8bit(grid: QParams) -> QParams:
    """Return `grid`, whose codes a step can read: they have at most 8 bits.

    Raises:
        NotCompiled: the codes have more bits.
    """
    if grid.dtype.bits > 8:
        raise NotCompiled(f"a compiled step reads 8-bit codes, not {grid.dtype}")
    return grid


def require_output_grid(out: QParams | None) -> QParams:
    """Return `out`, a grid that a step can write: one scale, 8 bits, full range.

    Raises:
        NotCompiled: `out` is None or another grid, or has a rounding rule.
    """
    is_whole = out is not None and out.axis is None and not out.narrow_range
    if out is None or not is_whole or out.dtype not in (qint8, quint8):
        raise NotCompiled("a compiled step rounds to one grid of 8-bit codes")
    if out.rounding not in (None, EXACT):
        raise NotCompiled(
            f"compiled steps round exactly, not by {out.rounding!r}; use rounding="
            "'exact' to compile it"
        )
    return out


def require_one_grid(x: Any) -> QParams:
    """Return the grid of `x`, a spec or tensor that a step reads.

    Raises:
        NotCompiled: scales differ along an axis, or codes have more than 8 bits.
    """
    grid = require_8bit(x.qparams)
    if grid.axis is not None:
        raise NotCompiled("a compiled step reads codes with one scale per operand")
    return grid


def attempt(
    prepare: Callable[..., Step], *arguments: object, **options: object
) -> Step | None:
    """Return `prepare(...)`, or None if it raises NotCompiled."""
    try:
        return prepare(*arguments, **options)
    except NotCompiled:
        return None


def find_step(
    prepare: Callable[..., Step], *given: object, out: QParams, **options: object
) -> Step | None:
    """Return `prepare(*given, out=out, **options)`, cached by all of these and the ISA.

    Args:
        prepare: a function that makes a compiled step.
        given: arguments of `prepare`, such as specs and functions; all hashable.
        out: the grid of the result.
        options: options of `prepare`, hashable as well.

    Returns:
        The step, or None if no kernel can compute it.
    """
    # Grids compare equal whatever their rounding rule, so the rule is a key of its own.
    return _step_by_key(
        CHOSEN.get().name, out.rounding, prepare, *given, out=out, **options
    )


@lru_cache(maxsize=1024)
def _step_by_key(
    _isa: str,
    _rule: str | None,
    prepare: Callable[..., Step],
    *given: object,
    out: QParams,
    **options: object,
) -> Step | None:
    return attempt(prepare, *given, out=out, **options)
