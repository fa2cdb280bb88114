"""Smooth activations by table against float64, every code; ties and far ends."""

import math

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, quint8
from mdtensor.quant.lookup import functions

LEAVES = {"qint8": QInt8Tensor, "quint8": QUInt8Tensor}
GRIDS = [
    (QParams(0.05, 3), QParams(0.02, -100)),
    (QParams(0.03125, 128, dtype=quint8), QParams(1 / 256, 9, dtype=quint8)),
    (QParams(0.25, -5), QParams(0.0625, 7, dtype=quint8)),
    (QParams(3.0, 100, dtype=quint8), QParams(0.05, -28)),
]
ROOT = math.sqrt(2 / math.pi)
REAL = {
    (md.silu, ()): lambda x: x / (1 + math.exp(-x)),
    (md.mish, ()): lambda x: x * math.tanh(math.log1p(math.exp(x))),
    (md.softsign, ()): lambda x: x / (1 + abs(x)),
    (md.leaky_relu, (("negative_slope", 0.1),)): lambda x: x if x > 0 else 0.1 * x,
    (md.elu, (("alpha", 0.7),)): lambda x: x if x > 0 else 0.7 * math.expm1(x),
    (md.selu, ()): lambda x: (
        1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x))
    ),
    (md.gelu, ()): lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    (md.gelu, (("approximate", "tanh"),)): lambda x: (
        x * (1 + math.tanh(ROOT * (x + 0.044715 * x**3))) / 2
    ),
}


def every_code(grid):
    codes = np.arange(256) + (0 if grid.dtype is quint8 else -128)
    return LEAVES[grid.dtype.name](codes.astype(grid.dtype.storage), grid)


@pytest.mark.parametrize("grid, out", GRIDS)
@pytest.mark.parametrize("call", REAL, ids=lambda c: f"{c[0].__name__}{dict(c[1])}")
def test_every_code_is_the_nearest(call, grid, out):
    operation, options = call
    x = every_code(grid)
    numbers = (np.asarray(x.codes).astype(int) - grid.zero) * float(grid.scale)
    steps = np.array([REAL[call](v) for v in numbers]) / float(out.scale)
    assert (np.abs(np.abs(steps - np.rint(steps)) - 0.5) > 1e-9).sum() > 200
    wanted = np.clip(np.rint(steps) + out.zero, out.minimum, out.maximum)
    found = operation(x, **dict(options), out=out)
    is_tie = np.abs(np.abs(steps - np.rint(steps)) - 0.5) <= 1e-9
    assert np.array_equal(np.asarray(found.codes)[~is_tie], wanted[~is_tie])
    assert (
        md.infer(
            operation, type(x).spec(x.shape, grid), **dict(options), out=out
        ).qparams
        == out
    )


def test_a_rational_tie_goes_to_the_even_code():
    """softsign(1) = 1/2 and softsign(3) = 3/4 on a grid of 1/2."""
    found = md.softsign(QInt8Tensor([1, 3, -1, -3], scale=1.0), out=QParams(0.5))
    assert found.codes.tolist() == [1, 2, -1, -2]


def test_other_options_are_refused():
    x = QInt8Tensor([1], scale=1.0)
    with pytest.raises(md.OptionError, match="approximate is 'erf'"):
        md.gelu(x, approximate="erf", out=QParams(1.0))
    with pytest.raises(md.OptionError, match="alpha is nan"):
        md.elu(x, alpha=math.nan, out=QParams(1.0))
    with pytest.raises(md.OptionError, match="negative_slope is '1'"):
        md.leaky_relu(x, negative_slope="1", out=QParams(1.0))
    with pytest.raises(md.GridError, match="no grid represents the result exactly"):
        md.silu(x)


def test_rules_hold_for_them_too():
    x = every_code(GRIDS[0][0])
    found = md.silu(x, out=GRIDS[0][1], rounding="onnx")
    assert found.rounding == "onnx"
    with pytest.raises(md.OptionError, match="does not define silu"):
        md.silu(x, out=GRIDS[0][1], rounding="tflite_ref")


def test_pi_and_erf():
    assert str(functions.pi(40))[:40] == "3.14159265358979323846264338327950288419"
