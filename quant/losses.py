"""Audits of quantized results for `md.checked`: saturated codes, accumulator bits.

An audit repeats the call by the exact rule. If the result has codes of at most 16 bits,
it repeats the call on the same scale with 32 bits: numbers outside of the codes have
saturated in the result. Accumulators and 8-bit floats do not have a wider type. But
compiled kernels do not round to them, so `exact` counts saturations while it rounds.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import MdtensorError, cpu
from mdtensor.extend import Case, Headroom, Lost, audit
from mdtensor.quant import exact
from mdtensor.quant.dtypes import FLOATS, qint32
from mdtensor.quant.generics import dequantize, quantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QInt32Tensor, QuantizedTensor

#: Operations with sums of products.
PRODUCTS = (md.matmul, md.linear, md.conv2d)
#: Operations whose exact results are accumulators.
SUMS = (md.add, md.sub, md.mul, *PRODUCTS)
#: Operations that can round to `out=`.
ROUNDED = tuple(
    function
    for function in md.operations().values()
    if "out" in function.operation.options
)
#: Bits of an accumulator without its sign.
BITS = 31


@audit(*ROUNDED, result=QuantizedTensor)
def saturations(case: Case) -> Iterator[Lost]:
    if case.options.get("out") is not None:
        yield from _find_saturations(case, "out")


@audit(quantize, result=QuantizedTensor)
def saturations_of_numbers(case: Case) -> Iterator[Lost]:
    yield from _find_saturations(case, "qparams")


@audit(md.astype, result=QuantizedTensor)
def saturations_of_codes(case: Case) -> Iterator[Lost]:
    yield from _find_saturations(case, "", case.arguments[0])


def _find_saturations(case: Case, option: str, *arguments: Any) -> Iterator[Lost]:
    """Yield the number of saturated elements of a call.

    Args:
        case: the call.
        option: the option that has the grid of the result; if empty, the grid is the
            last argument.
        arguments: replace the arguments of the call, except for the grid.
    """
    # The methods that repeat the call exist on the host only.
    if case.result.device is not cpu:
        return
    grid = case.result.qparams

    def call_on(target: QParams) -> QuantizedTensor | None:
        if option:
            return _call_again(case, *arguments, **{option: target})
        return _call_again(case, *arguments, target)

    if grid.dtype is qint32 or grid.dtype in FLOATS:
        with exact.count_saturations() as counts:
            call_on(grid.rounded("exact"))
        yield Lost("saturated", sum(counts))
    else:
        wide = call_on(_wide_grid(grid))
        if wide is not None:
            yield Lost("saturated", _count_outside(wide, case.result))


def _wide_grid(grid: QParams) -> QParams:
    """Return the grid of the same scale with zero point 0 and 32 bits."""
    return grid.replace(
        zero_point=0, dtype=qint32, narrow_range=False, rounding="exact"
    )


def _count_outside(wide: QuantizedTensor, result: QuantizedTensor) -> int:
    """Count the elements of `wide` that lie outside of the codes of `result`."""
    grid = result.qparams
    codes = wide.buffer.astype(np.int64) + grid.along(grid.zero_point, wide.shape)
    # The result may be rounded by another rule, and differ by one code from the exact
    # result. It saturated only if its code is at the same end of the range.
    at_end = (result.codes.buffer == grid.minimum, result.codes.buffer == grid.maximum)
    outside = (codes < grid.minimum) & at_end[0] | (codes > grid.maximum) & at_end[1]
    return int(np.count_nonzero(outside))


def _call_again(case: Case, *arguments: Any, **options: Any) -> QuantizedTensor | None:
    """Repeat the call by the exact rule with other arguments or options.

    Returns:
        The result; None if the call raises for them.
    """
    # `rounding=` would name a rule again, and it is invalid without `out=`.
    given = {n: v if n != "rounding" else None for n, v in case.options.items()}
    try:
        found: QuantizedTensor = case.function(
            *(arguments or case.arguments), **{**given, **options}
        )
    except MdtensorError:
        # A grid with 32 bits is not valid for every operation.
        return None
    return found


@audit(dequantize, result=md.Float32Tensor)
def roundings(case: Case) -> Iterator[Lost]:
    """Report accumulators that float32 cannot represent, even without their scale."""
    (x,) = case.arguments
    if isinstance(x, QInt32Tensor):
        steps = exact.steps_of(x)
        changed = steps.astype(np.float32).astype(np.int64) != steps
        yield Lost("rounded", int(np.count_nonzero(changed)))


@audit(*SUMS, md.sum, result=QInt32Tensor)
def headroom(case: Case) -> Iterator[Headroom]:
    if case.result.device is cpu:
        yield _headroom_of(case.result)


@audit(*PRODUCTS, result=AffineTensor)
def headroom_before_rounding(case: Case) -> Iterator[Headroom]:
    """Report the bits left in the sums that are rounded to `out`."""
    if case.options.get("out") is not None and case.result.device is cpu:
        sums = _call_again(case, out=None)
        if isinstance(sums, QInt32Tensor):
            yield _headroom_of(sums)


def _headroom_of(sums: QInt32Tensor) -> Headroom:
    # In 64 bits, because the magnitude of -2**31 does not fit 32.
    largest = int(np.abs(sums.buffer.astype(np.int64)).max(initial=0))
    return Headroom(BITS - largest.bit_length(), BITS)
