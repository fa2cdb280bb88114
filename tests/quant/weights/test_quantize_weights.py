"""Float weights in, codes on a grid out: every method, format and kind of array."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.each import each

import mdtensor as md
from mdtensor import DataError, LinAlgError, OptionError, ShapeError, quant
from mdtensor.graph import Node
from mdtensor.quant.model.quantize.algorithms import WeightAlgorithm
from mdtensor.quant.weights import METHODS

RNG = np.random.default_rng(3)
W = RNG.standard_normal((6, 20))
X = RNG.standard_normal((100, 4)) @ RNG.standard_normal((4, 20))
X += 0.1 * RNG.standard_normal(X.shape)
FORMATS = [
    {},
    {"bits": 4},
    {"bits": 2},
    {"axis": None, "bits": 4},
    {"bits": 4, "block_size": 5},
    {"bits": 4, "block_size": 7},  # the last block has 6
    {"bits": 4, "block_size": 64},
    {"symmetric": False},
    {"symmetric": False, "bits": 4, "block_size": 10},
    {"symmetric": False, "dtype": quant.quint8},
    {"symmetric": False, "dtype": "quint8", "bits": 3},
    {"dtype": quant.qint4},
    {"dtype": quant.qint4, "bits": 3, "block_size": 7},
    {"dtype": quant.quint4, "symmetric": False, "block_size": 8},
    {"dtype": quant.qint16},
]


def codes(found):
    return np.asarray(found.tensor.codes).astype(int)


@each("method", METHODS)
@each("format", FORMATS)
def test_codes_and_grid_are_the_numbers_that_the_errors_are_of(method, format):
    found = quant.quantize_weights(W, method=method, samples=X, **format)
    grid = found.tensor.qparams
    assert found.tensor.shape == W.shape
    bits = format.get("bits", grid.dtype.bits)
    unsigned = grid.dtype in (quant.quint4, quant.quint8)
    low, high = (0, 2**bits - 1) if unsigned else edges(bits, format)
    narrowest = "qint4" if format.get("bits", 8) <= 4 else "qint8"
    assert found.tensor.dtype is md.dtype(format.get("dtype", narrowest))
    assert low <= codes(found).min() <= codes(found).max() <= high
    real = np.asarray(quant.dequantize(found.tensor)).astype(float)
    if found.input_scale is not None:
        real = real / found.input_scale
    assert (real == found.numbers()).all()
    wrong = np.linalg.norm(real - W) / np.linalg.norm(W)
    assert found.weight_error == pytest.approx(wrong, rel=1e-5, abs=1e-7)
    wrong = np.linalg.norm(X @ (real - W).T) / np.linalg.norm(X @ W.T)
    assert found.output_error == pytest.approx(wrong, rel=1e-4, abs=1e-7)
    assert quant.output_error(W, found, X) == pytest.approx(wrong, rel=1e-6)


def edges(bits, format):
    top = 2 ** (bits - 1) - 1
    return (-top, top) if format.get("symmetric", True) else (-top - 1, top)


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_rounding_to_nearest_is_off_by_half_a_step(format):
    found = quant.quantize_weights(W, **format)
    scale = found.tensor.qparams.along(found.tensor.qparams.scale, W.shape)
    slack = 1.0 if format.get("symmetric", True) else 1.5  # the zero point is rounded
    assert (np.abs(found.numbers() - W) <= 0.5 * slack * scale * (1 + 1e-6)).all()
    assert found.output_error is None
    assert found.input_scale is None


def test_8_bits_to_nearest_are_the_codes_of_models():
    w, node = md.asarray(W.astype(np.float32)), Node("l", md.linear, ("x", "w"), "y")
    for axis in (0, None):
        wanted = WeightAlgorithm().codes(node, w, axis)
        found = quant.quantize_weights(w, axis=axis).tensor
        assert (found.qparams.scale == wanted.qparams.scale).all()
        assert found.codes.tolist() == wanted.codes.tolist()
        assert found.qparams.narrow_range


@pytest.mark.parametrize("method", METHODS)
def test_arrays_tensors_batches_and_moments_are_alike(method):
    options = {"method": method, "bits": 4}
    wanted = quant.quantize_weights(W, samples=X, **options)
    moments = quant.InputMoments(20)
    moments.observe(X)
    for w, x in (
        (md.asarray(W), md.asarray(X)),
        (np.asfortranarray(W), X[:, ::-1][:, ::-1]),
        (W[::-1][::-1], X.reshape(5, 20, 20)),
        (W, iter([X[:30], X[30:30], md.asarray(X[30:])])),
        (W.tolist(), moments),
    ):
        found = quant.quantize_weights(w, samples=x, **options)
        assert (codes(found) == codes(wanted)).all()
        assert found.output_error == pytest.approx(wanted.output_error, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_axes_behind_the_first_are_inputs(method):
    wanted = quant.quantize_weights(W, method=method, samples=X, bits=4)
    image = W.reshape(6, 5, 2, 2)
    found = quant.quantize_weights(image, method=method, samples=X, bits=4)
    assert found.tensor.shape == image.shape
    assert (codes(found).reshape(W.shape) == codes(wanted)).all()
    assert found.numbers().shape == image.shape
    assert quant.output_error(image, found, X) == pytest.approx(wanted.output_error)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_the_unit_of_weights_does_not_matter(method, factor):
    found = quant.quantize_weights(W * factor, method=method, samples=X, bits=4)
    wanted = quant.quantize_weights(W, method=method, samples=X, bits=4)
    assert found.output_error == pytest.approx(wanted.output_error, rel=0.05)


@each("method", METHODS)
@each("format", FORMATS)
def test_zeros_ones_and_tiny_weights(method, format):
    w = np.zeros((4, 20))
    w[1], w[2], w[3] = 1.0, -1e-44, 3e38
    x = X.copy()
    x[:, 3] = 0
    found = quant.quantize_weights(w, method=method, samples=x, **format)
    assert np.isfinite(found.numbers()).all()
    if format.get("axis", 0) == 0:
        real = found.numbers()
        assert (real[0] == 0).all()
        # Weights that are equal need no more than one step.
        np.testing.assert_allclose(real[1], 1.0, rtol=0.5 if method == "awq" else 0.2)


def test_methods_improve_on_what_they_search():
    """On the samples themselves, or on the weights, by construction."""
    for format in FORMATS:
        plain = quant.quantize_weights(W, samples=X, **format)
        mse = quant.quantize_weights(W, samples=X, method="mse", **format)
        awq = quant.quantize_weights(W, samples=X, method="awq", **format)
        assert mse.weight_error <= plain.weight_error * (1 + 1e-9)
        assert awq.output_error <= plain.output_error * (1 + 1e-9)


def test_hqq_lowers_its_norm():
    def norm(found):
        return (np.abs(found.numbers() - W) ** 0.7).sum(axis=1)

    plain = quant.quantize_weights(W, bits=3)
    assert (norm(plain) >= norm(quant.quantize_weights(W, bits=3, method="hqq"))).all()
    zero_steps = quant.quantize_weights(W, bits=3, method="hqq", steps=0)
    assert (codes(zero_steps) == codes(plain)).all()


@settings(max_examples=25)
@given(st.data())
def test_gptq_is_the_algorithm_of_the_paper(data):
    """One row at a time, one input at a time, each update from a fresh inverse."""
    n = data.draw(st.integers(2, 7))
    entries = st.integers(-8, 8).map(float)
    w = np.array([[data.draw(entries) for _ in range(n)] for _ in range(2)]) / 8 + 0.01
    x = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((3 * n, n))
    found = quant.quantize_weights(w, method="gptq", samples=x, bits=3, act_order=False)
    scale = found.tensor.qparams.scale
    gram = x.T @ x
    gram += 0.01 * np.diag(gram).mean() * np.eye(n)
    for row, step, given_codes in zip(w, scale, codes(found), strict=True):
        left, wanted = row.copy(), []
        for at in range(n):
            inverse = np.linalg.inv(gram[at:, at:])
            code = int(np.clip(np.rint(left[at] / step), -3, 3))
            wanted.append(code)
            off = (left[at] - step * code) / inverse[0, 0]
            left[at:] -= off * inverse[0]
        near_tie = np.abs(np.abs(np.array(wanted) - given_codes)).max() == 0
        assert near_tie or has_tie(row, step)


def has_tie(row, step):
    """Whether a rounding may fall either way by an error of float64."""
    return any(
        abs(Fraction(v) / Fraction(step) % 1 - Fraction(1, 2)) < 1e-9 for v in row
    )


def test_act_order_begins_where_the_energy_is():
    """The strongest input is rounded to its nearest code: nothing was moved there."""
    x = X.copy()
    x[:, 7] *= 100
    found = quant.quantize_weights(W, method="gptq", samples=x, bits=4)
    nearest = np.rint(W[:, 7] / found.tensor.qparams.scale)
    assert (codes(found)[:, 7] == np.clip(nearest, -7, 7)).all()


def test_few_samples_need_damping():
    few = X[:3]
    assert quant.quantize_weights(W, method="gptq", samples=few).output_error < 0.01
    with pytest.raises(LinAlgError) as raised:
        quant.quantize_weights(W, method="gptq", samples=few, damping=0.0)
    assert str(raised.value) == (
        "gptq: the Hessian of 20 inputs is not positive definite, as estimated from 3 "
        "samples. Give more samples, or a damping above 0."
    )


def test_an_input_that_is_always_0_is_rounded_by_itself():
    x = X.copy()
    x[:, [0, 11]] = 0
    for damping in (0.01, 0.0):
        found = quant.quantize_weights(
            W, method="gptq", samples=x + 1e-3 * (x != 0), damping=damping
        )
        real = found.numbers()[:, [0, 11]]
        steps = found.tensor.qparams.scale[:, None]
        assert (np.abs(real - W[:, [0, 11]]) <= 0.5001 * steps).all()


NAN, HUGE = W.copy(), W.copy()
NAN[2, 3], HUGE[2, 3] = np.nan, 1e39


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"method": "best"},
            OptionError,
            "method is 'best'. Use one of rtn, mse, hqq,",
        ),
        ({"method": ["rtn"]}, OptionError, "method is ['rtn']."),
        (
            {"damping": 1},
            OptionError,
            (
                "quantize_weights: no option 'damping'. There are method, samples, "
                "dtype, bits, axis, block_size, symmetric; rtn has no others."
            ),
        ),
        (
            {"method": "gptq", "steps": 1},
            OptionError,
            "block_size, symmetric; gptq has damping, act_order.",
        ),
        (
            {"method": "gptq"},
            OptionError,
            "gptq needs samples of the inputs of the layer",
        ),
        (
            {"method": "awq"},
            OptionError,
            "awq needs samples of the inputs of the layer.",
        ),
        (
            {"method": "gptq", "samples": X, "damping": -1},
            OptionError,
            "damping is -1. Use a number of 0 or more.",
        ),
        (
            {"method": "gptq", "samples": X, "damping": "much"},
            OptionError,
            "damping is 'much'. Use a number of 0 or more.",
        ),
        (
            {"method": "awq", "samples": X, "candidates": 0},
            OptionError,
            "candidates is 0. Use an integer of 1 or more.",
        ),
        (
            {"method": "hqq", "norm": 2.0},
            OptionError,
            "norm is 2.0. Use a number from 0.1 to 1.",
        ),
        ({"bits": 9}, OptionError, "bits is 9. Use 2 to 8."),
        ({"bits": 4.5}, OptionError, "bits is 4.5. Use 2 to 8."),
        ({"axis": 1}, OptionError, "axis is 1. Use 0 (a scale for each output) or"),
        (
            {"block_size": 0},
            OptionError,
            "block_size is 0. Use an integer of 1 or more.",
        ),
        (
            {"block_size": 4, "axis": None},
            OptionError,
            "axis=None means one scale.",
        ),
        ({"dtype": md.int8}, OptionError, "int8 is not a type of weights. Use qint8."),
        (
            {"dtype": "quint8"},
            OptionError,
            "need signed codes, and quint8 is unsigned.",
        ),
        (
            {"dtype": "qint32"},
            OptionError,
            "qint32 is not a type of weights. Use qint4,",
        ),
        (
            {"dtype": "qfloat8_e4m3"},
            OptionError,
            "qfloat8_e4m3 is not a type of weights.",
        ),
        (
            {"dtype": "qint16", "symmetric": False},
            OptionError,
            "qint16 has zero point 0, but symmetric=False needs another.",
        ),
        ({"weights": NAN}, DataError, "a weight is NaN, infinite or beyond float32."),
        ({"weights": HUGE}, DataError, "a weight is NaN, infinite or beyond float32."),
        ({"weights": "text"}, DataError, "a str is not an array of real numbers."),
        ({"weights": W * 1j}, DataError, "a ndarray is not an array of real numbers."),
        (
            {"weights": W[0]},
            ShapeError,
            "weights have shape (20,). Give [outputs,",
        ),
        ({"weights": W[:, :0]}, ShapeError, "weights have shape (6, 0). Give [outputs"),
        (
            {"weights": W.reshape(6, 5, 4), "block_size": 4},
            ShapeError,
            (
                "weights of shape (6, 5, 4) do not take blocks. Use a scale for each "
                "output"
            ),
        ),
        (
            {"samples": X[:, :9]},
            ShapeError,
            "samples have shape (100, 9), but the weights",
        ),
        ({"samples": X[:0]}, DataError, "there are no samples. Give at least one."),
        ({"samples": []}, DataError, "there are no samples. Give at least one."),
        ({"samples": X * np.nan}, DataError, "a sample is NaN, infinite or too large"),
        ({"samples": X * 1e200}, DataError, "a sample is NaN, infinite or too large"),
        ({"samples": ["text"]}, DataError, "a str is not an array of real numbers."),
        (
            {"samples": 3.0},
            ShapeError,
            "samples have shape (), but the weights have 20",
        ),
        (
            {"samples": quant.InputMoments(3)},
            ShapeError,
            "moments of 3 inputs, not 20",
        ),
    ],
)
def test_what_is_wrong_is_said(options, error, said):
    with pytest.raises(error) as raised:
        quant.quantize_weights(**({"weights": W} | options))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_comparing_other_shapes_is_refused():
    with pytest.raises(ShapeError, match=r"\(6, 20\) and \(5, 20\)"):
        quant.output_error(W, W[:5], X)


def test_errors_of_nothing():
    assert quant.output_error(W, W, X) == 0
    assert quant.output_error(W * 0, W, X) == np.inf
    assert quant.quantize_weights(W * 0, samples=X).output_error == 0
