"""8-bit floats of one scale: NaN and zeros with signs behave as among floats."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QFloat8E5M2Tensor,
    QParams,
    dequantize,
    requantize,
)
from mdtensor.quant.tensor import quantized

BYTES = np.arange(256, dtype=np.uint8)
KINDS = [QFloat8E4M3Tensor, QFloat8E5M2Tensor]
every_type = pytest.mark.parametrize("kind", KINDS)


def every_float(kind: Any) -> Any:
    return quantized(BYTES, QParams(0.5, dtype=kind.dtype))


def alike(got: Any, wanted: Any) -> bool:
    """The same floats, bit for bit, NaNs aside."""
    a, b = np.asarray(got), np.asarray(wanted)
    same = np.array_equal(a, b, equal_nan=True)
    return same and np.array_equal(np.signbit(a)[a == 0], np.signbit(b)[b == 0])


@every_type
def test_every_float_is_chosen_as_floats_are(kind: Any) -> None:
    x = every_float(kind)
    numbers = dequantize(x)
    for operation in (md.neg, md.relu, md.max, md.min, md.sort):
        assert alike(dequantize(operation(x)), operation(numbers)), operation
    for operation in (md.argmax, md.argmin, md.argsort):
        assert operation(x).tolist() == operation(numbers).tolist()
    column = md.reshape(x, (256, 1))
    for choose in (md.maximum, md.minimum):
        wanted = choose(dequantize(column), numbers)
        found = choose(column, x)
        assert type(found) is kind and found.qparams == x.qparams
        assert alike(dequantize(found), wanted)


@every_type
def test_with_out_what_is_chosen_rounds_once(kind: Any, exact: Any) -> None:
    finite = [b for b in BYTES if np.isfinite(np.uint8(b).view(kind.dtype.storage))]
    x = quantized(np.array(finite), QParams(0.3, dtype=kind.dtype))
    y, out = x[::-1], QParams(0.7, 3)
    for choose, pick in ((md.maximum, np.maximum), (md.minimum, np.minimum)):
        wanted = exact.codes(pick(exact.reals(x), exact.reals(y)), out)
        assert np.array_equal(choose(x, y, out=out).codes.buffer, wanted)


def test_grids_of_floats_that_differ_are_named() -> None:
    x = QFloat8E4M3Tensor([56], scale=0.5)
    with pytest.raises(md.GridError) as raised:
        md.maximum(x, QFloat8E4M3Tensor([56], scale=0.25))
    assert str(raised.value) == (
        "maximum(QFloat8E4M3Tensor[1], QFloat8E4M3Tensor[1]): the grids differ: "
        "(scale=0.5, zero_point=0) and (scale=0.25, zero_point=0). "
        "Pass out=QParams(...), or requantize one to the grid of the other."
    )


def test_other_rules_have_nothing_for_floats() -> None:
    x = QFloat8E4M3Tensor([56], scale=0.5)
    out = QParams(0.25, rounding="onnx")
    for call in (lambda: md.maximum(x, x, out=out), lambda: requantize(x, out=out)):
        with pytest.raises(
            md.OptionError, match="it does not have a kernel for qfloat8_e4m3"
        ):
            call()


def test_a_nan_is_below_no_number() -> None:
    x = QFloat8E4M3Tensor(np.array([127], np.uint8), scale=0.5)
    assert [(x < 1).tolist(), (x >= 0.5).tolist(), (x != 1).tolist()] == [
        [False],
        [False],
        [True],
    ]
