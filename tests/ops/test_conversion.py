"""Every policy for every pair of element types, against integers and fractions."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.device import _REGISTRY as DEVICES
from mdtensor.errors import CastError, DeviceError, DispatchError, OptionError

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

PLAIN = [leaf.dtype for leaf in DENSE]
PRECISION = {"float16": (11, 15), "float32": (24, 127), "float64": (53, 1023)}
POLICIES = ("exact", "check", "saturate", "wrap")

NUMBERS: list[float | int] = [
    *(0.0, -0.0, 0.5, -0.5, 0.999, -0.9, 1.0, 1.5, 2.5, -1.0, -1.5, 2.0, 126.9),
    *(127.5, 128.0, -128.0, -128.9, -129.0, 255.0, 255.5, 256.0, 300.0, 1023.5),
    *(2047.0, 2049.0, 2051.0, 65504.0, 65519.0, 65520.0, -65520.0, 65535.9, 65536.0),
    *(1e-7, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 1e-40, 2.0**-149, 2.0**-150, 5e-324),
    *(2.0**24 - 1, 2.0**24 + 2, 1 + 2.0**-11, 1 + 3 * 2.0**-12, 1 + 2.0**-24),
    *(2.0**31 - 128, 2.0**31, -(2.0**31), 2.0**32, 2.0**53, 2.0**53 + 2, 2.0**62),
    *(2.0**63, -(2.0**63), 2.0**63 - 1024, 2.0**64, -(2.0**64), 1e20, -1e20, 3.4e38),
    *(3.5e38, 1e300, -1e300, math.inf, -math.inf, math.nan),
]
INTEGERS = sorted(
    {sign * (2**k + d) for k in range(65) for d in (-1, 0, 1) for sign in (1, -1)}
    | {2049, 2051, 65519, 65520, 65521, 2**24 + 3, 2**53 + 3, 2**63 - 513, 2**63 - 512}
)


def values(dtype: md.DType) -> Any:
    """Numbers that `dtype` holds, the awkward ones above all."""
    if dtype.is_floating:
        with np.errstate(over="ignore"):
            return np.array(NUMBERS).astype(dtype.storage)
    held = [n for n in INTEGERS if dtype.minimum <= n <= dtype.maximum]
    return np.array(held, dtype.storage)


def nearest(exact: Fraction, dtype: md.DType) -> float:
    """The float nearest to `exact`, ties to even; an infinity from the bound on."""
    precision, top = PRECISION[dtype.name]
    if exact == 0:
        return 0.0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, 1 - top) - precision + 1)
    rounded = round(exact / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** (top + 1):
        return math.inf if exact > 0 else -math.inf
    return math.copysign(float(rounded), exact)


def integer_bounds(dtype: md.DType) -> tuple[int, int]:
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "unsigned integer":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def to_float(value: Any, dtype: md.DType, casting: str) -> Any:
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    rounded = nearest(Fraction(value), dtype)
    if casting == "exact" and rounded != value:
        return CastError
    if math.isfinite(rounded) or casting == "wrap":
        return rounded
    if casting == "check":
        return CastError
    return math.copysign(float(np.finfo(dtype.storage).max), rounded)


def to_integer(value: Any, dtype: md.DType, casting: str) -> Any:
    low, high = integer_bounds(dtype)
    if not math.isfinite(value):
        bound = 0 if math.isnan(value) else (low, high)[value > 0]
        return {"saturate": bound, "wrap": 0}.get(casting, CastError)
    whole = math.trunc(value)
    if casting == "exact" and whole != value:
        return CastError
    if low <= whole <= high:
        return whole
    wrapped = (whole - low) % (high - low + 1) + low
    clamped = min(max(whole, low), high)
    return {"saturate": clamped, "wrap": wrapped}.get(casting, CastError)


def expected(value: Any, dtype: md.DType, casting: str) -> Any:
    return (to_float if dtype.is_floating else to_integer)(value, dtype, casting)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b) and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("casting", POLICIES)
@pytest.mark.parametrize(("source", "target"), list(product(PLAIN, PLAIN)), ids=str)
def test_every_pair_and_policy(
    source: md.DType, target: md.DType, casting: str
) -> None:
    given_, wanted = values(source), []
    for value in given_:
        wanted.append(expected(value.item(), target, casting))
    fits = np.array([w is not CastError for w in wanted])
    cast = md.astype(md.from_numpy(given_[fits]), target, casting=casting)
    assert type(cast) is md.leaf(target)
    assert cast.buffer.dtype == target.storage
    for value, got, want in zip(
        given_[fits],
        cast.tolist(),
        [w for w in wanted if w is not CastError],
        strict=True,
    ):
        assert same(got, want), (value, got, want)
    for value in given_[~fits]:
        with pytest.raises(CastError):
            md.astype(md.from_numpy(value), target, casting=casting)


@given(st.floats(), st.sampled_from(PLAIN), st.sampled_from(POLICIES))
def test_any_double(value: float, target: md.DType, casting: str) -> None:
    want = expected(value, target, casting)
    x = md.asarray(value, dtype=md.float64)
    if want is CastError:
        with pytest.raises(CastError):
            md.astype(x, target, casting=casting)
    else:
        assert same(md.astype(x, target, casting=casting).tolist(), want)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(PLAIN))
def test_any_integer_wraps(value: int, target: md.DType) -> None:
    got = md.astype(md.asarray(value), target, casting="wrap").tolist()
    assert same(got, expected(value, target, "wrap"))


def test_default_is_check() -> None:
    with pytest.raises(CastError):
        md.astype(md.asarray([300]), md.int8)
    assert md.astype(md.asarray([1.5]), md.int8).tolist() == [1]


@pytest.mark.parametrize("name", [md.int8, "int8", np.int8, np.dtype("int8")], ids=repr)
def test_names_of_an_element_type(name: Any) -> None:
    assert type(md.astype(md.asarray([1]), name)) is md.Int8Tensor


def test_is_a_copy() -> None:
    x = md.asarray([1, 2])
    for casting in POLICIES:
        same_type = md.astype(x, md.int64, casting=casting)
        assert not np.shares_memory(same_type.buffer, x.buffer)


def test_keeps_shape_and_does_not_write() -> None:
    x = md.reshape(md.asarray([1.5, -2.5, 3.0, 1e9]), (2, 1, 2))
    before = x.buffer.copy()
    assert md.astype(x, md.int8, casting="wrap").shape == (2, 1, 2)
    assert md.astype(x, md.int8, casting="saturate").shape == (2, 1, 2)
    assert (x.buffer == before).all()
    assert md.astype(md.zeros((0, 3)), md.uint8).shape == (0, 3)


def text(error: type[Exception], call: Any) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_errors_say_what_and_where() -> None:
    x = md.asarray([1.5, 300.0])
    assert text(CastError, lambda: md.astype(x, md.uint8)) == (
        "astype(Float32Tensor[2], uint8): 1 of 2 values outside; uint8 represents 0 to "
        '255. Use casting="saturate" or "wrap", or a wider type.'
    )
    assert text(CastError, lambda: md.astype(x, md.int64, casting="exact")) == (
        "astype(Float32Tensor[2], int64): 1 of 2 values not exactly representable; "
        "int64 represents -9223372036854775808 to 9223372036854775807. "
        'Use casting="saturate" or "wrap", or a wider type.'
    )
    assert text(OptionError, lambda: md.astype(x, md.uint8, casting="safe")) == (
        "astype(Float32Tensor[2], uint8): casting is 'safe'. "
        "Use exact, check, saturate, wrap."
    )
    assert text(OptionError, lambda: md.astype(x, "int7")).startswith(
        "astype(Float32Tensor[2], str): no element type int7. Known are bool, int8,"
    )
    assert text(DispatchError, lambda: md.astype(x, None)) == (
        "astype(Float32Tensor, NoneType): no method: dtype is NoneType, not DType | "
        "str | type | dtype. Nearest: "
        + str(md.which(md.astype, md.Float32Tensor, md.DType))
        .split("-> ")[1]
        .replace("  ", " at ")
        + "."
    )


def test_to_its_own_device_is_itself() -> None:
    x = md.asarray([1.0])
    assert md.to(x, md.cpu) is x
    assert md.to(x, "cpu") is x
    assert x.to("cpu") is x


def test_to_a_device_without_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    class Far(type(md.cpu)):  # type: ignore[misc]
        name = "far"

    x = md.asarray([1.0])
    assert text(DeviceError, lambda: md.to(x, "far")) == (
        "to(Float32Tensor[1], str): no device 'far'. Registered are "
        + ", ".join(DEVICES)
        + "."
    )
    monkeypatch.setitem(DEVICES, "far", Far())
    assert text(DeviceError, lambda: md.to(x, "far")) == (
        "to(Float32Tensor[1], str): float32 has no tensor type on far."
    )
