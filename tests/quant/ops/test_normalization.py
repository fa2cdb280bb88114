"""Layer norm and RMS norm of codes: exact, rounded once, as eager call and as step."""

from fractions import Fraction

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.kernels.reference.normalization import normalize_u8
from mdtensor.quant import QParams, qint4, qint8, quint8
from mdtensor.quant.ops import normalization
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.tensor import quantized

OUT = QParams(0.03, 100, dtype=quint8)
NORMS = [md.layer_norm, md.rms_norm]
STEPS = {
    md.layer_norm: normalization.layer_norm_step,
    md.rms_norm: normalization.rms_norm_step,
}


def floats(rng, size, dtype=md.float32):
    return md.astype(md.asarray(rng.standard_normal(size)), dtype)


def wanted(operation, x, weights, length, eps, out):
    """The oracle on the codes, in exact rationals."""
    grid, step = x.qparams, out.fraction
    least = int(grid.minimum)
    codes = (np.asarray(x.codes).astype(int) - least).reshape(-1, length)
    numbers = [np.asarray(w).astype(float).reshape(-1) for w in weights]
    numbers += [np.ones(length), np.zeros(length)][len(numbers) :]
    w, b = ([Fraction(v) / step for v in each.tolist()] for each in numbers)
    spread = Fraction(eps) / grid.fraction**2
    is_centered = operation is md.layer_norm
    found = normalize_u8(
        *(codes.astype(np.uint8), is_centered, grid.zero - least, spread, w, b),
        *(out.zero - int(out.minimum), 0, int(out.maximum) - int(out.minimum)),
    )
    return found.reshape(x.shape).astype(int) + int(out.minimum)


@pytest.mark.parametrize("operation", NORMS)
@pytest.mark.parametrize("dtype", [quint8, qint8, qint4])
@pytest.mark.parametrize("out", [OUT, QParams(0.02, -20), QParams(0.5, dtype=qint4)])
def test_any_codes(operation, dtype, out, rng):
    zero = int(rng.integers(dtype.minimum, dtype.maximum + 1))
    codes = rng.integers(dtype.minimum, dtype.maximum + 1, (3, 2, 12))
    x = quantized(codes.astype(dtype.storage), QParams(0.05, zero, dtype=dtype))
    weights = [floats(rng, 12), floats(rng, 12)][: 1 + (operation is md.layer_norm)]
    for given in ([], weights[:1], weights):
        got = operation(x, *given, normalized_shape=12, eps=1e-3, out=out)
        want = wanted(operation, x, given, 12, 1e-3, out)
        assert got.qparams is out and np.array_equal(np.asarray(got.codes), want)
        spec = md.infer(operation, x, *given, normalized_shape=12, eps=1e-3, out=out)
        assert spec == md.TensorSpec(type(got), x.shape, out)


@pytest.mark.parametrize("operation", NORMS)
@pytest.mark.parametrize("dtype", [md.float32, md.float16, md.bfloat16, md.float64])
def test_the_step_gives_the_codes_of_the_call(operation, dtype, random_codes, rng):
    for sizes, shape in (((5,), (4, 5)), ((2, 3), (7, 2, 3)), ((64,), (1, 3, 9, 64))):
        x = random_codes(shape, QParams(0.04, 77, dtype=quint8))
        given = [floats(rng, sizes, dtype) for _ in range(len(STEPS))]
        given = given[: 1 + (operation is md.layer_norm)]
        options = {"normalized_shape": sizes, "eps": 1e-5, "out": OUT}
        step = STEPS[operation](x.spec(x.shape, x.qparams), *given, **options)
        got = operation(x, *given, **options)
        assert np.array_equal(step(np.asarray(x.codes)), np.asarray(got.codes))


def test_rms_norm_has_the_eps_of_float32(random_codes):
    x = random_codes((2, 6), QParams(1e-4, 7, dtype=quint8))
    got = md.rms_norm(x, normalized_shape=6, out=OUT)
    eps = float(np.finfo(np.float32).eps)
    assert np.array_equal(
        np.asarray(got.codes), wanted(md.rms_norm, x, [], 6, eps, OUT)
    )


def test_a_tie_goes_to_the_even_code(tensor):
    """Steps -1, 1 of a row 0, 2 without eps: halves of weights of 5 and 7."""
    x = tensor([[0, 2]], QParams(1.0, dtype=quint8))
    options = {"normalized_shape": 2, "eps": 0.0, "out": QParams(1.0)}
    for numbers, want in (([2.5, 3.5], [-2, 4]), ([-0.5, 0.5], [0, 0])):
        w = md.asarray(np.float32(numbers))
        assert md.layer_norm(x, w, **options).codes.tolist() == [want]


def test_numbers_that_float64_does_not_hold(tensor):
    x = tensor([[0, 2, 7]], QParams(2e-38))
    got = md.layer_norm(x, normalized_shape=3, eps=1e300, out=QParams(1.0))
    assert got.codes.tolist() == [[0, 0, 0]]
    x = tensor([[0, 2, 7]], QParams(1e30))
    got = md.layer_norm(x, normalized_shape=3, eps=5e-324, out=QParams(0.5))
    assert got.codes.tolist() == [[-2, -1, 3]]


def test_no_elements():
    grid = QParams(0.5)
    for shape in ((0, 3), (2, 0)):
        x = quant.QInt8Tensor.wrap(np.zeros(shape, np.int8), grid)
        got = md.layer_norm(x, normalized_shape=shape[1], out=grid)
        assert got.shape == shape


def test_errors(tensor):
    x = tensor([[3, 3]], QParams(0.5))
    many = tensor([[3, 3]], QParams([0.5, 0.25], axis=1))
    options = {"normalized_shape": 2, "out": QParams(1.0)}
    with pytest.raises(md.CastError, match=r"no variance, and eps is 0.*0 / 0"):
        md.layer_norm(x, eps=0, **options)
    with pytest.raises(md.GridError, match="no grid represents the result exactly"):
        md.layer_norm(x, normalized_shape=2)
    with pytest.raises(md.GridError, match="scales differ along axis 1"):
        md.rms_norm(many, **options)
    with pytest.raises(md.CastError, match="not finite"):
        md.layer_norm(x, md.asarray([1.0, np.inf]), **options)
    with pytest.raises(md.ShapeError, match=r"a weight has shape \(3,\)"):
        md.layer_norm(x, md.ones((3,)), **options)
    with pytest.raises(md.ShapeError, match="does not end in"):
        md.layer_norm(x, normalized_shape=3, out=QParams(1.0))
    with pytest.raises(md.OptionError, match="does not define layer_norm"):
        md.layer_norm(x, **options, rounding="onnx")
    long = quant.QInt8Tensor.wrap(np.ones((1, 2**20 + 1), np.int8), QParams(1.0))
    with pytest.raises(md.OptionError, match="1048577 codes, and sums"):
        md.layer_norm(long, normalized_shape=2**20 + 1, out=QParams(1.0))


def test_what_is_not_compiled_says_why():
    x = md.TensorSpec(quant.QUInt8Tensor, (2, 4), QParams(0.1, dtype=quint8))
    w = md.TensorSpec(md.Float32Tensor, (4,))
    options = {"normalized_shape": 4, "out": OUT}
    with pytest.raises(NotCompiled, match="constant weights and biases"):
        normalization.rms_norm_step(x, w, eps=1e-5, **options)
    with pytest.raises(NotCompiled, match="eps is 0"):
        normalization.layer_norm_step(x, None, None, eps=0.0, **options)
    with pytest.raises(NotCompiled, match="one grid of 8-bit codes"):
        normalization.rms_norm_step(x, None, eps=1e-5, normalized_shape=4)
