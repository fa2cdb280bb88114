"""What quantized arithmetic loses in `md.checked`: saturated codes, accumulator bits.

A result that was rounded to a grid is computed again by the exact rule. To one of at
most 16 bits on the same steps with 32: what lies outside of the codes there has
saturated here. To one of accumulators or of floats no kernel rounds, so what does
counts for itself, see `saturation`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import MdtensorError, cpu
from mdtensor.checking import Case, Headroom, Lost, audit
from mdtensor.quant import exact
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QInt32Tensor, QuantizedTensor

PRODUCTS = (md.matmul, md.linear, md.conv2d)
SUMS = (md.add, md.sub, md.mul, *PRODUCTS)
#: Operations that may round to `out=`.
ROUNDED = tuple(
    function
    for function in md.operations().values()
    if "out" in function.operation.options
)
BITS = 31
#: Integers up to this are float32 numbers.
WHOLE = 2**24


@audit(*ROUNDED, result=QuantizedTensor)
def saturations(case: Case) -> Iterator[Lost]:
    if case.options.get("out") is not None:
        yield from _saturated(case, "out")


@audit(quantize, result=QuantizedTensor)
def saturations_of_numbers(case: Case) -> Iterator[Lost]:
    yield from _saturated(case, "qparams")


@audit(md.astype, result=QuantizedTensor)
def saturations_of_codes(case: Case) -> Iterator[Lost]:
    yield from _saturated(case, "", case.arguments[0])


def _saturated(case: Case, option: str, *arguments: Any) -> Iterator[Lost]:
    """Of a call that is given its grid as an option, or as the last argument."""
    if case.result.device is not cpu:
        return
    grid = case.result.qparams

    def again(target: QParams) -> Any:
        if option:
            return _again(case, *arguments, **{option: target})
        return _again(case, *arguments, target)

    if grid.dtype is qint32 or grid.dtype in FLOATS:
        with exact.counted() as counts:
            again(grid.rounded("exact"))
        yield Lost("saturated", sum(counts))
    else:
        wide = again(_wide(grid))
        if wide is not None:
            yield Lost("saturated", _outside(wide, case.result))


def _wide(grid: QParams) -> QParams:
    """The same steps from real 0, with 32 bits."""
    return grid.replace(
        zero_point=0, dtype=qint32, narrow_range=False, rounding="exact"
    )


def _outside(wide: Any, result: Any) -> int:
    """How many steps of `wide` are past the codes of `result`."""
    grid = result.qparams
    codes = wide.buffer.astype(np.int64) + grid.along(grid.zero_point, wide.shape)
    # Another rule of rounding may be off by one, but not at the same end.
    at_end = (result.codes.buffer == grid.minimum, result.codes.buffer == grid.maximum)
    outside = (codes < grid.minimum) & at_end[0] | (codes > grid.maximum) & at_end[1]
    return int(np.count_nonzero(outside))


def _again(case: Case, *arguments: Any, **options: Any) -> Any:
    """The call with other arguments or options, by the exact rule; None if refused."""
    given = {n: v if n != "rounding" else None for n, v in case.options.items()}
    try:
        return case.function(*(arguments or case.arguments), **{**given, **options})
    except MdtensorError:
        return None


@audit(dequantize, result=md.Float32Tensor)
def roundings(case: Case) -> Iterator[Lost]:
    """Of accumulators that float32 does not hold, whatever their scale."""
    (x,) = case.arguments
    if isinstance(x, QInt32Tensor):
        steps = exact.steps_of(x)
        changed = steps.astype(np.float32).astype(np.int64) != steps
        yield Lost("rounded", int(np.count_nonzero(changed)))


@audit(*SUMS, md.sum, result=QInt32Tensor)
def headroom(case: Case) -> Iterator[Headroom]:
    if case.result.device is cpu:
        yield _left(case.result)


@audit(*PRODUCTS, result=AffineTensor)
def headroom_before_rounding(case: Case) -> Iterator[Headroom]:
    """Of the sums that `out` rounds."""
    if case.options.get("out") is not None and case.result.device is cpu:
        sums = _again(case, out=None)
        if isinstance(sums, QInt32Tensor):
            yield _left(sums)


def _left(sums: QInt32Tensor) -> Headroom:
    largest = int(np.abs(sums.buffer.astype(np.int64)).max(initial=0))
    return Headroom(BITS - largest.bit_length(), BITS)
