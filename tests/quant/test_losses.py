"""What quantized arithmetic saturates, counted with exact rationals."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import LossError
from mdtensor.quant import (
    QInt8Tensor,
    QParams,
    dequantize,
    quantize,
    requantize,
)

GRID = QParams(0.1, 3)
scales = st.sampled_from([0.01, 0.1, 0.25, 0.5, 3.0])


def outside(numbers: list[Fraction], grid: QParams) -> int:
    """How many round to no code."""
    codes = [round(x / grid.fraction) + grid.zero for x in numbers]
    return sum(not grid.minimum <= code <= grid.maximum for code in codes)


def reals(q: Any) -> list[Fraction]:
    step, zero = q.qparams.fraction, q.qparams.zero
    return [(code - zero) * step for code in q.codes.tolist()]


@given(scales, scales, scales, st.integers(-128, 127), st.data())
def test_sums_and_products(a: float, b: float, c: float, zero: int, data: Any) -> None:
    codes = st.lists(st.integers(-128, 127), min_size=4, max_size=4)
    x = QInt8Tensor(data.draw(codes), scale=a, zero_point=zero)
    y = QInt8Tensor(data.draw(codes), scale=b)
    out = QParams(c, zero)
    pairs = list(zip(reals(x), reals(y), strict=True))
    for operation, exact in (
        (md.add, [p + q for p, q in pairs]),
        (md.sub, [p - q for p, q in pairs]),
        (md.mul, [p * q for p, q in pairs]),
    ):
        with md.checked() as log:
            operation(x, y, out=out)
        assert log.lost["saturated"] == outside(exact, out)
    with md.checked() as log:
        requantize(x, out=out)
    assert log.lost["saturated"] == outside(reals(x), out)


def test_numbers_onto_a_grid() -> None:
    low, high = GRID.range
    with md.checked() as log:
        quantize(md.asarray([low, high, high + 1, low - 1, np.inf, 0.0]), GRID)
    assert log.lost == {"saturated": 3}


def test_products_of_matrices_have_headroom_or_saturate() -> None:
    x = QInt8Tensor([[100, 100]], scale=0.1)
    w = QInt8Tensor([[100], [100]], scale=0.1)
    with md.checked() as log:
        md.matmul(x, w)
        md.matmul(x, w, out=QParams(0.1))
    exact, rounded = log
    assert exact.headroom is not None
    assert (exact.headroom.bits, exact.headroom.width) == (31 - 15, 31)
    assert rounded.lost == {"saturated": 1}
    assert rounded.headroom == exact.headroom, "of the sums that out= rounds"


def test_sums_have_headroom_and_floats_have_none() -> None:
    w = QInt8Tensor([[100], [100]], scale=0.1)
    with md.checked() as log:
        md.sum(w)
        md.matmul(md.ones((1, 2)), w)
    assert log.headroom == 31 - 8


def test_raises() -> None:
    with pytest.raises(LossError) as caught, md.checked(raises=True):
        quantize(md.asarray([1e9]), GRID)
    assert str(caught.value) == (
        "quantize(Float32Tensor[1]): 1 of 1 elements saturated. "
        "Use a larger scale or a wider type."
    )


def test_nothing_is_said_where_nothing_is_lost() -> None:
    x = QInt8Tensor([1, 2], qparams=GRID)
    with md.checked() as log:
        md.relu(x)
        dequantize(x)
        md.sigmoid(x, out=QParams(1 / 256, -128))
    assert not log


CODES = QInt8Tensor([127, 1, -128], scale=1.0)


def test_under_another_rule_of_rounding() -> None:
    with md.checked() as log:
        quantize(md.asarray([1e9, 1.0]), QParams(1.0), rounding="onnx")
        with md.quant.rounding("tflite_ref"):
            md.add(CODES, CODES, out=QParams(1.0))
    assert log.lost == {"saturated": 3}


@pytest.mark.parametrize(
    ("compute", "count"),
    [
        (lambda: md.astype(CODES, QParams(0.5), casting="saturate"), 2),
        (lambda: md.clip(CODES, -5.0, 5.0, out=QParams(0.01)), 2),
        (lambda: md.silu(CODES, out=QParams(1 / 512)), 2),
        (lambda: md.elu(CODES, out=QParams(1 / 512)), 3),
        (lambda: md.relu6(CODES, out=QParams(1 / 512)), 2),
    ],
)
def test_curves_and_casts(compute: Any, count: int) -> None:
    with md.checked() as log:
        compute()
    assert log.lost == {"saturated": count}
