"""Where compiled kernels end: what they cannot hold goes to exact integers.

A kernel rounds to 8-bit codes, by ratios of scales within its limits
(`kernels/cpu/rounding/rescale.py`). Past them a method computes on 64-bit integers instead, and a
plan calls the method: the results are the same.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from mdtensor import MdtensorError, OptionError
from mdtensor.kernels.cpu.kernel_set import CHOSEN
from mdtensor.quant.dtypes import qint8, quint8
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rules import EXACT

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
