"""Activation functions against their formulas in Python's floats."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from support.each import each

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

FLOATS = [md.bfloat16, md.float16, md.float32, md.float64]
EPS = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-23}
TINY = {"bfloat16": 1e-38, "float16": 2.0**-25, "float32": 1e-38, "float64": 1e-300}


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def softplus(x: float, beta: float = 1.0) -> float:
    z = beta * x
    if z > 20:
        return x
    return (max(z, 0.0) + math.log1p(math.exp(-abs(z)))) / beta


def elu(x: float, alpha: float = 1.0) -> float:
    return x if x > 0 else alpha * math.expm1(x)


def tanh_gelu(x: float) -> float:
    return x * logistic(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def hard(x: float, alpha: float = 1 / 6, beta: float = 0.5) -> float:
    return min(max(alpha * x + beta, 0.0), 1.0)


CURVES: dict[str, tuple[Callable[..., Any], Callable[[float], float]]] = {
    "relu": (md.relu, lambda x: max(x, 0.0)),
    "relu6": (md.relu6, lambda x: min(max(x, 0.0), 6.0)),
    "hardsigmoid": (md.hardsigmoid, hard),
    "slope": (
        partial(md.hardsigmoid, alpha=0.25, beta=0.5),
        partial(hard, alpha=0.25),
    ),
    "hardswish": (md.hardswish, lambda x: x * hard(x)),
    "leaky_relu": (md.leaky_relu, lambda x: x if x > 0 else 0.01 * x),
    "steep": (
        partial(md.leaky_relu, negative_slope=1.5),
        lambda x: x if x > 0 else 1.5 * x,
    ),
    "elu": (md.elu, elu),
    "elu2": (partial(md.elu, alpha=2), lambda x: elu(x, 2)),
    "selu": (
        md.selu,
        lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    ),
    "celu": (partial(md.celu, alpha=2.0), lambda x: x if x > 0 else 2 * elu(x / 2)),
    "hardtanh": (md.hardtanh, lambda x: min(max(x, -1.0), 1.0)),
    "bounds": (
        partial(md.hardtanh, min_val=-4, max_val=0.5),
        lambda x: min(max(x, -4.0), 0.5),
    ),
    "sigmoid": (md.sigmoid, logistic),
    "logsigmoid": (
        md.logsigmoid,
        lambda x: min(x, 0.0) - math.log1p(math.exp(-abs(x))),
    ),
    "softplus": (md.softplus, softplus),
    "softplus2": (partial(md.softplus, beta=0.5), partial(softplus, beta=0.5)),
    "softsign": (md.softsign, lambda x: x / (1 + abs(x))),
    "silu": (md.silu, lambda x: x * logistic(x)),
    "mish": (md.mish, lambda x: x * math.tanh(math.log1p(math.exp(min(x, 50))))),
    "gelu": (md.gelu, lambda x: x * math.erfc(-x / math.sqrt(2)) / 2),
    "gelu_tanh": (partial(md.gelu, approximate="tanh"), tanh_gelu),
}


@each("dtype", FLOATS)
@each("name", CURVES)
def test_against_the_formula(name: str, dtype: md.DType) -> None:
    operation, formula = CURVES[name]
    x = np.concatenate([np.linspace(-9, 9, 1001), [-60.0, 30.0, 60.0]])
    x = x.astype(dtype.storage)
    want = np.array([formula(v) for v in x.astype(np.float64)])
    found = operation(md.from_numpy(x))
    assert found.dtype is dtype
    eps = EPS.get(dtype.name, 2.0**-52)
    room = eps if dtype.bits == 16 else 6 * eps
    # Python's formula squares a rounded number far below 0.
    room += 2e-14 if name == "gelu" else 0
    lost = {"gelu_tanh": eps / 50}  # far below 0
    lost |= {"hardsigmoid": eps, "hardswish": 4 * eps}  # where alpha · x cancels beta
    floor = TINY[dtype.name] + lost.get(name, 0)
    assert np.allclose(found.buffer.astype(np.float64), want, rtol=room, atol=floor)


def inverse_tangent(n: int) -> Decimal:
    """Return atan(1 / n) to the precision of the context."""
    return sum(
        ((-1) ** k / (Decimal(2 * k + 1) * n ** (2 * k + 1)) for k in range(290)),
        Decimal(0),
    )


def normal_share(x: float) -> Decimal:
    """Return Φ(x) with 30 digits: 1/2 + exp(-x²/2) / √(2π) · Σ x²ⁿ⁺¹ / (2n + 1)!!."""
    # As many digits are lost as Φ has zeros.
    with localcontext(prec=400):
        z = Decimal(x)
        term = total = z
        for n in range(3, 20_000, 2):
            term *= z * z / n
            total += term
            if abs(term) < Decimal(10) ** -380:
                break
        pi = 16 * inverse_tangent(5) - 4 * inverse_tangent(239)
        return Decimal("0.5") + total * (-z * z / 2).exp() / (2 * pi).sqrt()


def test_gelu_of_float64_keeps_its_digits_far_below_0() -> None:
    """Within 12 ulp, where 1 + erf has none left, down to subnormal results."""
    x = np.array([-0.4, -0.75, -1.3, -2.9, -4.02, -8.3, -11.7, -20.1, -30.5, -37.9])
    x = np.concatenate([x, [-38.3, -1e-9, 0.3, 2.5, 9.0]])
    want = np.array([float(Decimal(v) * normal_share(v)) for v in x.tolist()])
    found = md.gelu(md.from_numpy(x)).buffer
    assert np.all(np.abs(found - want) <= 12 * np.spacing(np.abs(want)))
    ends = md.gelu(md.from_numpy(np.array([-40.0, -1e300, -np.inf, -0.0])))
    assert ends.tolist() == [0.0] * 4 and np.signbit(ends.buffer).all()


CLOSE = ["elu", "elu2", "selu", "celu", "sigmoid", "silu", "logsigmoid", "softplus"]


@pytest.mark.parametrize("name", [*CLOSE, "mish", "softsign"])
def test_five_ulp_from_tiny_to_large(name: str) -> None:
    operation, formula = CURVES[name]
    sizes = np.geomspace(1e-30, 80, 3000)
    x = np.concatenate([sizes, -sizes]).astype(np.float32)
    want = np.array([formula(v) for v in x.tolist()])
    found = operation(md.from_numpy(x)).buffer
    room = 5 * np.spacing(np.abs(want).astype(np.float32))
    assert np.all(np.abs(found - want) <= room)


@each("dtype", [md.bfloat16, md.float32, md.float64])
@each("name", CURVES)
def test_the_same_bytes_in_an_array_of_any_size(name: str, dtype: md.DType) -> None:
    operation = CURVES[name][0]
    numbers = np.concatenate([np.linspace(-30, 30, 997), [0.0, -0.0, 1e30, -1e30]])
    ends = [np.inf, -np.inf, np.nan]
    small = np.concatenate([numbers, ends]).astype(dtype.storage)
    large = np.concatenate([np.resize(numbers, (1 << 18) + 5), ends, numbers])
    large = large.astype(dtype.storage)
    few = operation(md.from_numpy(small)).buffer
    many = operation(md.from_numpy(large)).buffer
    assert many[: len(numbers)].tobytes() == few[: len(numbers)].tobytes()
    assert many[-len(numbers) :].tobytes() == few[: len(numbers)].tobytes()
    assert np.array_equal(many[(1 << 18) + 5 :][:3], few[-3:], equal_nan=True)


ENDS = {
    "relu6": (0.0, 6.0),
    "hardsigmoid": (0.0, 1.0),
    "slope": (0.0, 1.0),
    "hardtanh": (-1.0, 1.0),
    "bounds": (-4.0, 0.5),
    "elu": (-1.0, math.inf),
    "elu2": (-2.0, math.inf),
    "celu": (-2.0, math.inf),
    "selu": (-1.7580993408473766, math.inf),
    "sigmoid": (0.0, 1.0),
    "softsign": (-1.0, 1.0),
    "logsigmoid": (-math.inf, 0.0),
    "leaky_relu": (-math.inf, math.inf),
    "steep": (-math.inf, math.inf),
}


@each("dtype", FLOATS)
@each("name", CURVES)
def test_the_limits_at_the_ends(name: str, dtype: md.DType) -> None:
    low, high = ENDS.get(name, (0.0, math.inf))
    x = md.asarray([-math.inf, math.inf, math.nan], dtype=dtype)
    *found, last = CURVES[name][0](x).tolist()
    room = 2**-7 if dtype.bits == 16 else 1e-6
    assert np.allclose(found, [low, high], rtol=room)
    assert math.isnan(last)


@pytest.mark.parametrize("name", CURVES)
def test_no_overflow_on_the_way(name: str) -> None:
    """1e30 is far beyond the exponential of any float32."""
    operation, formula = CURVES[name]
    low, high = ENDS.get(name, (0.0, math.inf))
    wants = [low if math.isfinite(low) else formula(-1e30)]
    wants += [high if math.isfinite(high) else formula(1e30)]
    found = operation(md.asarray([-1e30, 1e30])).tolist()
    assert np.allclose(found, wants, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("name", CURVES)
def test_any_strides_and_no_elements(name: str, rng: np.random.Generator) -> None:
    operation = CURVES[name][0]
    x = rng.standard_normal((6, 8), np.float32)
    x.flags.writeable = False
    before = x.copy()
    whole = operation(md.from_numpy(x)).buffer
    assert np.array_equal(
        operation(md.from_numpy(x[::-2, ::3])).buffer, whole[::-2, ::3]
    )
    assert np.array_equal(x, before)
    one = md.from_numpy(np.broadcast_to(np.float16(0.5), (2, 0, 3)))
    assert operation(one).shape == (2, 0, 3)
    scalar = operation(md.asarray(0.5, dtype=md.float16))
    assert (type(scalar.buffer), scalar.shape) == (np.ndarray, ())


def test_softplus_is_linear_above_its_threshold() -> None:
    x = md.asarray([0.5, 1.0, 1.5])
    found = md.softplus(x, beta=2.0, threshold=2.0).tolist()
    assert found[2] == 1.5
    assert np.allclose(found[:2], [softplus(0.5, 2.0), softplus(1.0, 2.0)])


NUMBERS = st.floats(-8, 8, width=32)


@given(arrays(np.float32, (2, 3, 4), elements=NUMBERS), st.integers(-3, 2))
def test_glu_and_log_softmax_along_any_axis(x: np.ndarray, axis: int) -> None:
    exact = np.exp(x.astype(np.float64))
    want = np.log(exact / exact.sum(axis=axis, keepdims=True))
    found = md.log_softmax(md.from_numpy(x), axis=axis)
    assert np.allclose(found, want, rtol=1e-5, atol=1e-5)
    if x.shape[axis] % 2 == 0:
        a, b = np.split(x.astype(np.float64), 2, axis=axis)
        found = md.glu(md.from_numpy(x), axis=axis)
        assert np.allclose(found, a / (1 + np.exp(-b)), rtol=1e-6)


def test_log_softmax_neither_overflows_nor_underflows() -> None:
    x = md.asarray([1000.0, 0.0, -math.inf])
    assert md.log_softmax(x).tolist() == [0.0, -1000.0, -math.inf]
    assert md.log_softmax(md.zeros((2, 0))).shape == (2, 0)
    half = md.log_softmax(md.asarray([0.0, 0.0], dtype=md.bfloat16))
    assert half.tolist() == [-0.69140625] * 2


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_prelu(dtype: md.DType) -> None:
    x = md.full((2, 3, 1, 2), -2.0, dtype=dtype)
    w = md.asarray([0.5, 1.0, 2.0])
    found = md.prelu(x, w)
    assert (found.dtype, found.shape) == (dtype, (2, 3, 1, 2))
    assert found[1, :, 0, 0].tolist() == [-1.0, -2.0, -4.0]
    for one in (md.asarray([0.25]), md.asarray(0.25)):
        assert md.prelu(x, one)[0, 0, 0].tolist() == [-0.5, -0.5]
        assert md.prelu(md.asarray([-2.0, 3.0]), one).tolist() == [-0.5, 3.0]
    assert md.prelu(md.asarray(-2.0), md.asarray([0.25])).tolist() == -0.5
    assert md.prelu(md.ones((2, 0, 3)), md.ones((0,))).shape == (2, 0, 3)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "leaky_relu(Float32Tensor[2,3]): negative_slope must be a real number, but "
    "is '1'. Give a number, not a str or bool.": (
        lambda x: md.leaky_relu(x, negative_slope="1")
    ),
    "celu(Float32Tensor[2,3]): alpha is 0. Use another number.": (
        lambda x: md.celu(x, alpha=0)
    ),
    "softplus(Float32Tensor[2,3]): beta is 0. Use another number.": (
        lambda x: md.softplus(x, beta=0.0)
    ),
    "hardtanh(Float32Tensor[2,3]): min_val 2.0 is above max_val 1.0. Swap them.": (
        lambda x: md.hardtanh(x, min_val=2)
    ),
    "hardtanh(Float32Tensor[2,3]): min_val must not be NaN. Use another number for "
    "min_val.": lambda x: md.hardtanh(x, min_val=float("nan")),
    "hardtanh(Float32Tensor[2,3]): max_val must not be NaN. Use another number for "
    "max_val.": lambda x: md.hardtanh(x, max_val=float("nan")),
    "gelu(Float32Tensor[2,3]): approximate is 'erf'. Use one of 'none', 'tanh'.": (
        lambda x: md.gelu(x, approximate="erf")
    ),
    "glu(Float32Tensor[2,3]): axis 1 of size 3 does not split into halves. "
    "Use an even size.": md.glu,
    "prelu(Float32Tensor[2,3], Float32Tensor[2]): the weight has shape (2,), but there "
    "are 3 channels. Give it shape (1,) or (3,).": lambda x: md.prelu(x, md.ones((2,))),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises((OptionError, ShapeError)) as caught:
        REFUSED[text](md.zeros((2, 3)))
    assert str(caught.value) == text


def test_integers_have_no_fractions() -> None:
    for operation in (md.gelu, md.sigmoid, md.hardsigmoid, md.hardswish):
        with pytest.raises(DispatchError, match="Use astype"):
            operation(md.asarray([1, 2]))


@pytest.mark.parametrize("dtype", [md.int8, md.uint8, md.int64], ids=str)
def test_integers_are_rectified(dtype: md.DType) -> None:
    x = md.asarray([dtype.minimum, 0, 3, dtype.maximum], dtype=dtype)
    assert md.relu(x).tolist() == [0, 0, 3, dtype.maximum]
    many = md.from_numpy(np.resize(x.buffer, 1 << 14))
    assert np.array_equal(md.relu(many), np.resize(md.relu(x).buffer, 1 << 14))
    assert md.relu6(x).tolist() == [0, 0, 3, 6]
    assert md.relu(x).dtype is md.relu6(x).dtype is dtype


def test_bounds_are_rounded_once_to_the_type() -> None:
    x = md.asarray([0.0, 2.0], dtype=md.bfloat16)
    above_tie = 1 + 2**-8 + 2**-40
    assert md.hardtanh(x, max_val=above_tie).tolist() == [0.0, 1 + 2**-7]
    assert md.clip(x, -1, above_tie).tolist() == [0.0, 1 + 2**-7]
    whole = md.clip(md.asarray([1, 5], dtype=md.int8), 0, 2.0)
    assert (whole.dtype, whole.tolist()) == (md.int8, [1, 2])
    wide = md.clip(md.asarray([1.0, 5.0]), md.asarray([0, 2], dtype=md.int8), 3)
    assert (wide.dtype, wide.tolist()) == (md.float32, [1.0, 3.0])


@pytest.mark.parametrize("dtype", [md.float32, md.float64], ids=str)
def test_gates_far_below_zero(dtype: Any) -> None:
    """exp(-x) is infinite there, and the result is not yet 0."""
    low = -102.0 if dtype is md.float32 else -740.0
    a = np.linspace(low, low * 0.8, 999).astype(dtype.storage)
    a = np.concatenate([a, np.array([np.nan, -np.inf, 1], a.dtype)])
    x, wide = md.from_numpy(a), a.astype(np.longdouble)
    power = np.exp(wide) / (1 + np.exp(wide))
    tiny = np.finfo(a.dtype).smallest_subnormal
    found = md.sigmoid(x).buffer
    assert np.allclose(found[:999], power[:999].astype(a.dtype), rtol=4e-7, atol=tiny)
    gated = md.silu(x).buffer
    want = (wide[:999] * power[:999]).astype(a.dtype)
    assert np.allclose(gated[:999], want, rtol=4e-7, atol=tiny)
    for result in (found, gated):
        assert np.isnan(result[999]) and result[1000] == 0 and result[1001] > 0.7


def test_an_infinite_weight_leaves_positive_numbers_alone() -> None:
    x = md.asarray([[2.0, -1.0]])
    assert md.prelu(x, md.asarray([np.inf])).tolist() == [[2.0, -np.inf]]
