"""What quantized arithmetic loses in `md.checked`: saturated codes, accumulator bits.

A result that was rounded to a grid is computed again on the same steps with 32 bits:
what lies outside of the codes there has saturated here.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import MdtensorError, cpu
from mdtensor.checking import Case, Headroom, Lost, audit
from mdtensor.quant.dtypes import qint32
from mdtensor.quant.generics import quantize, requantize
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import AffineTensor, QInt32Tensor

PRODUCTS = (md.matmul, md.linear, md.conv2d)
SUMS = (md.add, md.sub, md.mul, *PRODUCTS)
ROUNDED = (
    *SUMS,
    *(md.div, md.minimum, md.maximum, md.avg_pool2d, md.global_avg_pool2d, md.mean),
    *(md.relu, md.sigmoid, md.tanh, md.hardswish, md.hardsigmoid, requantize),
    *(md.relu6, md.clip, md.exp, md.silu, md.mish, md.gelu, md.elu, md.selu),
    *(md.softsign, md.leaky_relu),
)
BITS = 31


@audit(*ROUNDED, result=AffineTensor)
def saturations(case: Case) -> Iterator[Lost]:
    if case.options.get("out") is not None:
        yield from _saturated(case, out=_wide(case.result.qparams))


@audit(quantize, result=AffineTensor)
def saturations_of_numbers(case: Case) -> Iterator[Lost]:
    yield from _saturated(case, qparams=_wide(case.result.qparams))


@audit(md.astype, result=AffineTensor)
def saturations_of_codes(case: Case) -> Iterator[Lost]:
    yield from _saturated(case, case.arguments[0], _wide(case.result.qparams))


def _wide(grid: QParams) -> QParams:
    """The same steps from real 0, with 32 bits."""
    return grid.replace(
        zero_point=0, dtype=qint32, narrow_range=False, rounding="exact"
    )


def _saturated(case: Case, *arguments: Any, **options: Any) -> Iterator[Lost]:
    result = case.result
    if result.device is not cpu or result.dtype is qint32:
        return
    wide = _again(case, *arguments, **options)
    if wide is None:  # no such method beyond 8 bits
        return
    grid = result.qparams
    codes = wide.buffer.astype(np.int64) + grid.along(grid.zero_point, wide.shape)
    # Another rule of rounding may be off by one, but not at the same end.
    at_end = (result.codes.buffer == grid.minimum, result.codes.buffer == grid.maximum)
    outside = (codes < grid.minimum) & at_end[0] | (codes > grid.maximum) & at_end[1]
    yield Lost("saturated", int(np.count_nonzero(outside)))


def _again(case: Case, *arguments: Any, **options: Any) -> Any:
    """The call with other arguments or options, by the exact rule; None if refused."""
    given = {n: v if n != "rounding" else None for n, v in case.options.items()}
    try:
        return case.function(*(arguments or case.arguments), **{**given, **options})
    except MdtensorError:
        return None


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
