"""Long calls on two tensors of 8 bits or fewer, looked up in a table of all pairs.

A result depends on two codes, and there are 65,536 pairs of them. So the operation
itself computes the table, by any rule of rounding, and a long call only looks up. It
does not depend on how many sums are near a tie, which integers decide one by one.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, wraps
from math import prod
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import Tensor
from mdtensor.extend import broadcast_shapes
from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.numpy import empty
from mdtensor.quant import exact
from mdtensor.quant.codes import Reader
from mdtensor.quant.ops.bound import Run
from mdtensor.quant.ops.kernels import attempt, require_output_grid
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import NarrowTensor, QuantizedTensor, wrap_codes

Array = npt.NDArray[Any]
#: Codes of a long call: as many as there are pairs.
LEAST = 1 << 16
#: Sums of 8-bit codes beyond it saturate; and half of the width of a near tie of the
#: byte kernels, in codes.
PAST, NEAR = 512.0, 2.0**-12
#: The part of pairs near a tie from which on a lookup takes less time than a kernel.
OFTEN = 1 / 256
#: Bytes of a result from which it takes the memory of an earlier one.
LARGE = 1 << 20
LOOK_UP = Entry("generic.pair_codes", "lookup_pairs_u8")


Bind = Callable[..., Run]


# A table of all pairs serves every rule of rounding (decision 0106).
def tabulated(is_usual: Callable[..., bool] | None = None) -> Callable[[Bind], Bind]:
    """Return a decorator of a method under `bind_once`, so that long calls look up.

    Args:
        is_usual: whether the byte kernels are as fast, of both grids and `out`; None if
            no kernel computes the operation.
    """

    def decorate(bind: Bind) -> Bind:
        @wraps(bind)
        def run(x1: Any, x2: Any, /, *, out: QParams | None = None) -> Run:
            found = bind(x1, x2, out=out)
            # First the size: a short call has no time for a count of near ties.
            if out is None or not is_long(x1, x2):
                return found
            if is_usual is not None and is_usual(x1, x2, out):
                return found
            return by_table(lambda a, b: bind(a, b, out=out)(a, b), found, x1, x2, out)

        return run

    return decorate


def by_table(
    compute: Run,
    otherwise: Run,
    x1: QuantizedTensor,
    x2: QuantizedTensor,
    out: QParams | None = None,
) -> Run:
    """Return `otherwise`, or for a long call a function that looks its results up.

    Args:
        compute: the operation on two tensors of any shape, element by element.
        otherwise: a function of the tensors that computes the call.
        x1, x2: tensors of the call; the result does not hold them.
        out: the grid of the result; None for bools.
    """
    is_byte = out is None or (out.axis is None and out.dtype.bits <= 8)
    if is_byte and is_long(x1, x2):
        return PairTable(compute, otherwise, x1, x2)
    return otherwise


def is_long(x1: QuantizedTensor, x2: QuantizedTensor) -> bool:
    """Return whether a table pays for a call, and both have one scale and few codes."""
    if prod(broadcast_shapes(x1.shape, x2.shape)) < LEAST:
        return False
    return all(isinstance(x, NarrowTensor) and x.qparams.axis is None for x in (x1, x2))


class PairTable:
    """A bound call that looks pairs of codes up.

    Args:
        compute: the operation on two tensors, element by element, with its options.
        otherwise: a function of the tensors that computes the call.
        x1, x2: tensors of the call; the result does not hold them.
    """

    __slots__ = ("_lock", "_table", "compute", "kinds", "otherwise", "readers", "shape")

    def __init__(
        self,
        compute: Callable[..., Tensor],
        otherwise: Run,
        x1: QuantizedTensor,
        x2: QuantizedTensor,
    ) -> None:
        self.compute, self.otherwise = compute, otherwise
        self.shape = broadcast_shapes(x1.shape, x2.shape)
        self.readers = [Reader(type(x), shape=self.shape) for x in (x1, x2)]
        self.kinds = [(type(x), x.qparams, x.rounding) for x in (x1, x2)]
        self._table: tuple[Array, Tensor] | None = None
        self._lock = Lock()

    def __call__(self, x1: QuantizedTensor, x2: QuantizedTensor) -> Tensor:
        """Return the result for tensors of the bound types, shapes and grids."""
        # A table does not show which of its results are beyond the ends of the grid.
        if exact.is_counting():
            found: Tensor = self.otherwise(x1, x2)
            return found
        if self._table is None:
            with self._lock:
                self._table = self._table or self._compute_table()
        table, sample = self._table
        first, second = (r(x) for r, x in zip(self.readers, (x1, x2), strict=True))
        out = empty(self.shape, np.uint8, LARGE)
        LOOK_UP.call(first, second, table, out.reshape(-1))
        if observe.ACTIVE:
            observe.ran(LOOK_UP.__name__, "generic")
        if not isinstance(sample, QuantizedTensor):
            return sample.wrap(out.view(np.bool_))
        codes = out.view(sample.dtype.storage)
        return wrap_codes(type(sample), codes, sample.qparams, sample.rounding)

    def _compute_table(self) -> tuple[Array, Tensor]:
        """Return the table by unsigned codes, and an empty tensor like the results."""
        codes = [_all_codes(grid) for _, grid, _ in self.kinds]
        columns, rows = np.broadcast_arrays(codes[0][:, None], codes[1])
        pairs = [
            wrap_codes(kind, np.ascontiguousarray(each), grid, rule)
            for (kind, grid, rule), each in zip(
                self.kinds, (columns, rows), strict=True
            )
        ]
        found = self.compute(*pairs)
        results = (
            found.code_array if isinstance(found, QuantizedTensor) else found.buffer
        )
        table = np.zeros(1 << 16, np.uint8)
        places = [
            Reader(kind)(x) for (kind, *_), x in zip(self.kinds, pairs, strict=True)
        ]
        at = places[0].astype(np.uint16) << 8 | places[1]
        table[at] = results.reshape(-1).view(np.uint8)
        return table, found[:0]


@lru_cache(maxsize=64)
def _all_codes(grid: QParams) -> Array:
    """Return all codes of the type of `grid`."""
    info = grid.dtype
    return np.arange(int(info.minimum), int(info.maximum) + 1).astype(info.storage)


def is_usual_sum(x1: QuantizedTensor, x2: QuantizedTensor, out: QParams) -> bool:
    """Return whether a kernel adds or subtracts, and few sums are near a tie."""
    return _is_compiled(out, "add", "sub") and not _is_often_near_a_tie(
        x1.qparams, x2.qparams, out, is_product=False
    )


def is_usual_product(x1: QuantizedTensor, x2: QuantizedTensor, out: QParams) -> bool:
    """Return whether a kernel multiplies, and few products are near a tie."""
    return _is_compiled(out, "mul") and not _is_often_near_a_tie(
        x1.qparams, x2.qparams, out, is_product=True
    )


def _is_compiled(out: QParams, *names: str) -> bool:
    """Return whether the byte kernels round to `out`, by the rule in force."""
    has_rule = any(rounding_rule(name, out) for name in names)
    return not has_rule and attempt(require_output_grid, out) is not None


@lru_cache(maxsize=256)
def _is_often_near_a_tie(
    g1: QParams, g2: QParams, out: QParams, is_product: bool
) -> bool:
    """Return whether many sums, or products, of codes are near a tie on `out`.

    Then the byte kernels, which let integers decide near ties, take more time than a
    lookup: scales are decimal numbers more often than chance has it.
    """
    ratios = [g1.fraction / out.fraction, g2.fraction / out.fraction]
    if is_product:
        ratios = [ratios[0] * g2.fraction]
    if all(_is_short(ratio) for ratio in ratios):
        return False
    a, b = (np.asarray(_all_codes(g), np.float64) - g.zero for g in (g1, g2))
    if is_product:
        total = np.outer(a, b) * float(ratios[0])
    else:
        total = np.add.outer(a * float(ratios[0]), b * float(ratios[1]))
    distance = np.abs(np.abs(total - np.rint(total)) - 0.5)
    is_near = (distance < NEAR) & (np.abs(total) < PAST)
    return float(np.mean(is_near)) > OFTEN


def _is_short(ratio: Fraction) -> bool:
    """Return whether float32 scales codes by the ratio exactly, which needs no test."""
    below = ratio.denominator
    return below & (below - 1) == 0 and ratio.numerator < 256
