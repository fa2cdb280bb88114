"""Every policy for every pair of element types, against integers and fractions."""

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.device import _REGISTRY as DEVICES
from mdtensor.errors import CastError, DeviceError, DispatchError, OptionError
from mdtensor.kernels.numpy import conversion as kernel

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]
#: Significant bits, and the exponent of the largest number.
PRECISION = {
    "float16": (11, 15),
    "bfloat16": (8, 127),
    "float32": (24, 127),
    "float64": (53, 1023),
}
POLICIES = ("exact", "check", "saturate", "wrap")
Outcomes = tuple[Any, ...]

NUMBERS: list[float] = [
    *(0.0, 0.5, 0.999, 1.0, 1.5, 2.5, 2.0, 126.9, 127.5, 128.0, 128.9, 129.0, 255.0),
    *(255.5, 256.0, 300.0, 1023.5, 2047.0, 2049.0, 2051.0, 32767.5, 32768.5, 65504.0),
    *(65519.0, 65519.999, 65520.0, 65535.9, 65536.0, 2.0**62, 1e20, 3.4e38, 3.5e38),
    *(1e-7, 1e-40, 5e-324, 2.0**-1022, 1e300, 1.7976931348623157e308),
    *(2.0**31 - 128, 2.0**63 - 1024, 2.0**64 - 2048, 2.0**53 + 2, math.inf, math.nan),
    # Halfway between neighbours of every precision, subnormals too, and close to it.
    *(
        2.0**scale * (1 + 2.0**-bits) * (1 + nudge)
        for scale in (0, 7, 62, 127, -13, -24, -126, -133, -149)
        for bits in (7, 8, 10, 11, 23, 24, 52)
        for nudge in (0, 2.0**-30, -(2.0**-30), 2.0**-52, -(2.0**-53))
    ),
    *(2.0**k * m for k in (-25, -26, -134, -150, -151) for m in (1, 1.5, 1 + 2.0**-30)),
    *(2.0 - 2.0**-k for k in (8, 9, 11, 12, 24, 25)),
    *(2.0**127 * (2 - 2.0**-k) for k in (7, 8, 9, 23, 24, 25)),
]
INTEGERS = sorted(
    {2**k + d for k in range(65) for d in (-1, 0, 1)}
    | {
        2**k + 2 ** (k - p) + d
        for p in (8, 11, 24)
        for k in range(p, 64, 5)
        for d in (-1, 0, 1)
    }
    | {2049, 2051, 65519, 65520, 65521, 2**53 + 3, 2**63 - 513, 2**63 - 512}
)


def values(dtype: md.DType) -> Any:
    """Numbers that `dtype` holds: every one of 8 bits, of more the awkward ones."""
    rng = np.random.default_rng(0)
    if dtype.is_complex:
        parts = values(PARTS[dtype])[::7]
        pairs = [(a, b) for a in parts for b in (0.0, -0.0, a)]
        pairs += [(a, b) for a in parts[:5] for b in (1.5, np.nan, np.inf, 1e-30)]
        found = np.empty(len(pairs), dtype.storage)
        with np.errstate(over="ignore"):
            found.real, found.imag = np.array(pairs).T
        return found
    if dtype.is_floating:
        bits = rng.integers(0, 2**dtype.bits, 200, np.uint64)
        found = bits.astype(f"u{dtype.bits // 8}").view(dtype.storage)
        signed = [*NUMBERS, *(-n for n in NUMBERS)]
        with np.errstate(over="ignore"):
            return np.concatenate([np.array(signed).astype(dtype.storage), found])
    if dtype.bits == 8:
        return np.arange(dtype.minimum, dtype.maximum + 1).astype(dtype.storage)
    signed = [*INTEGERS, *(-n for n in INTEGERS)]
    held = [n for n in signed if dtype.minimum <= n <= dtype.maximum]
    drawn = rng.integers(dtype.minimum, dtype.maximum, 200, dtype.storage.type)
    return np.concatenate([np.array(held, dtype.storage), drawn])


def nearest(exact: Fraction, dtype: md.DType) -> float:
    """The float nearest to `exact`, ties to even; an infinity from the bound on."""
    precision, top = PRECISION[dtype.name]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    quantum = Fraction(2) ** (max(exponent, 1 - top) - precision + 1)
    rounded = round(exact / quantum) * quantum
    if abs(rounded) >= Fraction(2) ** (top + 1):
        return math.inf if exact > 0 else -math.inf
    return math.copysign(float(rounded), exact)


def largest(dtype: md.DType) -> float:
    precision, top = PRECISION[dtype.name]
    return (2.0 - 2.0 ** (1 - precision)) * 2.0**top


def to_float(value: Any, dtype: md.DType) -> Outcomes:
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return (value,) * 4
    rounded = nearest(Fraction(value), dtype) if value else 0.0
    exact = rounded if rounded == value else CastError
    if math.isfinite(rounded):
        return exact, rounded, rounded, rounded
    return exact, CastError, math.copysign(largest(dtype), rounded), rounded


def to_integer(value: Any, dtype: md.DType) -> Outcomes:
    signed = dtype.kind == "signed integer"
    low = -(2 ** (dtype.bits - 1)) if signed else 0
    high = low + 2**dtype.bits - 1
    if not math.isfinite(value):
        bound = 0 if math.isnan(value) else (low, high)[value > 0]
        return CastError, CastError, bound, 0
    whole = math.trunc(value)
    if low <= whole <= high:
        return whole if whole == value else CastError, whole, whole, whole
    wrapped = (whole - low) % 2**dtype.bits + low
    return CastError, CastError, min(max(whole, low), high), wrapped


PARTS = {md.complex64: md.float32, md.complex128: md.float64}


def outcomes(value: Any, dtype: md.DType) -> Outcomes:
    """What each of the policies makes of a Python number."""
    if dtype is md.bool:
        truth = value != 0
        return truth if value in (0, 1) else CastError, truth, truth, truth
    if dtype.is_complex:
        real, imag = (
            outcomes(part, PARTS[dtype])
            for part in (value.real, getattr(value, "imag", 0))
        )
        pairs = zip(real, imag, strict=True)
        return tuple(
            CastError if CastError in pair else complex(*pair) for pair in pairs
        )
    if isinstance(value, complex):
        kept = outcomes(value.real, dtype)[:2] if value.imag == 0 else [CastError] * 2
        return (*kept, CastError, CastError)
    return (to_float if dtype.is_floating else to_integer)(value, dtype)


def same(a: Any, b: Any) -> bool:
    if isinstance(b, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(b, float) and math.isnan(b):
        return math.isnan(a)
    return bool(a == b) and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize(("source", "target"), list(product(PLAIN, PLAIN)), ids=str)
def test_every_pair_and_policy(source: md.DType, target: md.DType) -> None:
    given_ = values(source)
    wanted = [outcomes(value, target) for value in given_.tolist()]
    for casting, column in zip(POLICIES, zip(*wanted, strict=True), strict=True):
        fits = np.array([want is not CastError for want in column])
        for value in given_[~fits]:
            with pytest.raises(CastError):
                md.astype(md.from_numpy(value), target, casting=casting)
        if not fits.any():
            assert source.is_complex and casting in ("saturate", "wrap")
            continue
        cast = md.astype(md.from_numpy(given_[fits]), target, casting=casting)
        assert type(cast) is md.leaf(target)
        assert cast.buffer.dtype == target.storage
        kept = [want for want in column if want is not CastError]
        for value, got, want in zip(given_[fits], cast.tolist(), kept, strict=True):
            assert same(got, want), (casting, value, got, want)


NARROW = [md.float16, md.bfloat16]
WIDE = [md.float32, md.float64, md.complex64, md.complex128]


@pytest.mark.parametrize("target", [t for t in PLAIN if t not in WIDE], ids=str)
@pytest.mark.parametrize("source", NARROW, ids=str)
def test_floats_of_16_bits(source: md.DType, target: md.DType) -> None:
    # Every 7th, since the oracle takes 20 µs for each: every exponent and sign is met.
    given_ = np.arange(0, 2**16, 7, dtype=np.uint16).view(source.storage)
    wanted = [outcomes(value, target) for value in given_.tolist()]
    exact, check, saturate, wrap = zip(*wanted, strict=True)
    for column, refuses in ((exact, kernel.inexact), (check, kernel.outside)):
        misfits = np.broadcast_to(refuses(given_, target.storage), given_.shape)
        assert misfits.tolist() == [want is CastError for want in column]
    for casting, column in (("saturate", saturate), ("wrap", wrap)):
        cast = md.astype(md.from_numpy(given_), target, casting=casting)
        pairs = zip(cast.tolist(), column, strict=True)
        assert all(same(got, want) for got, want in pairs)


@pytest.mark.parametrize("target", WIDE, ids=str)
@pytest.mark.parametrize("source", NARROW, ids=str)
def test_every_float_of_16_bits_widens(source: md.DType, target: md.DType) -> None:
    given_ = np.arange(2**16, dtype=np.uint16).view(source.storage)
    for casting in POLICIES:
        cast = md.astype(md.from_numpy(given_), target, casting=casting).tolist()
        assert all(map(same, (z.real for z in cast), given_.tolist()))
        assert all(same(z.imag, 0.0) for z in cast)


@given(st.floats(), st.sampled_from(PLAIN), st.sampled_from(POLICIES))
def test_any_double(value: float, target: md.DType, casting: str) -> None:
    want = outcomes(value, target)[POLICIES.index(casting)]
    x = md.asarray(value, dtype=md.float64)
    if want is CastError:
        with pytest.raises(CastError):
            md.astype(x, target, casting=casting)
    else:
        assert same(md.astype(x, target, casting=casting).tolist(), want)


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from(PLAIN))
def test_any_integer_wraps(value: int, target: md.DType) -> None:
    got = md.astype(md.asarray(value), target, casting="wrap").tolist()
    assert same(got, outcomes(value, target)[3])


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


def test_copy_false_is_itself_where_nothing_changes() -> None:
    x = md.asarray([1, 2])
    assert md.astype(x, md.int64, copy=False) is x
    assert md.astype(x, md.int64, copy=False, device="cpu") is x
    assert md.astype(x, md.int8, copy=False).tolist() == [1, 2]
    with pytest.raises(OptionError):
        md.astype(x, md.int64, copy=False, casting="safe")


def test_truth_is_being_other_than_zero() -> None:
    for leaf in md.leaves()[1:15]:
        x = leaf.wrap(np.array([0, 1, 2, 100], leaf.dtype.storage))
        for casting in POLICIES[1:]:
            truth = md.astype(x, md.bool, casting=casting)
            assert truth.tolist() == [False, True, True, True]
        with pytest.raises(CastError):
            md.astype(x, md.bool, casting="exact")
        assert md.astype(x[:2], md.bool, casting="exact").tolist() == [False, True]


@each("target", PLAIN)
@each("source", PLAIN)
def test_any_layout(source: md.DType, target: md.DType) -> None:
    whole = np.arange(12).reshape(3, 4) % 2
    flat = whole.astype(source.storage)
    row = flat[1].copy()
    row.flags.writeable = False
    layouts = [
        flat.T,
        flat[::-2, ::3],
        flat[1, 1],
        flat[:0],
        row,
        np.broadcast_to(row, (5, 4)),
    ]
    for array in map(np.asarray, layouts):
        for casting in POLICIES:
            if source.is_complex > target.is_complex and casting in POLICIES[2:]:
                continue
            cast = md.astype(md.from_numpy(array), target, casting=casting)
            assert cast.shape == array.shape
            assert isinstance(cast.buffer, np.ndarray)
            assert cast.buffer.flags.writeable
            assert np.all(cast.buffer == (array != 0).astype(target.storage))


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
        "astype(Float32Tensor[2], uint8): 1 of 2 values are out of range; uint8 "
        "represents 0 to "
        '255. Use casting="saturate" or "wrap", or a wider type.'
    )
    assert text(CastError, lambda: md.astype(x, md.int64, casting="exact")) == (
        "astype(Float32Tensor[2], int64): 1 of 2 values are not exactly int64. "
        'Use casting="round" to round them, or casting="check" to cut fractions off.'
    )
    assert text(OptionError, lambda: md.astype(x, md.uint8, casting="safe")) == (
        "astype(Float32Tensor[2], uint8): casting is 'safe'. "
        "Use exact, check, round, saturate, wrap."
    )
    assert text(OptionError, lambda: md.astype(x, md.uint8, casting=["wrap"])) == (
        "astype(Float32Tensor[2], uint8): casting is ['wrap']. "
        "Use exact, check, round, saturate, wrap."
    )
    z = md.asarray([1 + 0j, 2j])
    assert text(CastError, lambda: md.astype(z, md.float32)) == (
        "astype(Complex64Tensor[2], float32): 1 of 2 values have an imaginary part. "
        "Use real(x) or abs(x) first."
    )
    assert text(CastError, lambda: md.astype(z, md.int8, casting="wrap")) == (
        "astype(Complex64Tensor[2], int8): casting='wrap' does not apply to complex "
        "numbers. Use real(x) or abs(x) first."
    )
    assert text(OptionError, lambda: md.astype(x, "int7")).startswith(
        "astype(Float32Tensor[2], str): no element type int7. Known are bool, int8,"
    )
    nearest = md.which(md.astype, md.Float32Tensor, str).line.split("-> ")[1]
    assert text(DispatchError, lambda: md.astype(x, None)).startswith(
        "astype(Float32Tensor, NoneType): no method: dtype is NoneType, not DType | "
        f"str | type | dtype. Nearest: {nearest.replace('  ', ' at ')}; astype("
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
        "to(Float32Tensor[1], str): no device 'far'. Registered devices: "
        + ", ".join(DEVICES)
        + "."
    )
    monkeypatch.setitem(DEVICES, "far", Far())
    assert text(DeviceError, lambda: md.to(x, "far")) == (
        "to(Float32Tensor[1], str): float32 has no tensor type on far. "
        "Use the device cpu."
    )


@pytest.mark.parametrize("casting", ["check", "exact"])
def test_nan_is_called_nan(casting: str) -> None:
    x = md.asarray([1.0, float("nan"), 300.0])
    with pytest.raises(CastError, match="1 of 3 values are NaN, which int8 lacks"):
        md.astype(x, md.int8, casting=casting)


@pytest.mark.parametrize("source", [md.float16, md.bfloat16, md.float32, md.float64])
@pytest.mark.parametrize("target", [md.int8, md.uint8, md.int64, md.uint64])
def test_casts_round_to_the_nearest_integer(source: md.DType, target: md.DType) -> None:
    halves = np.arange(0 if target.minimum == 0 else -126, 126, 0.25)
    x = md.astype(md.asarray(halves), source)
    found = md.astype(x, target, casting="round")
    # Python rounds halves to even, too.
    assert found.tolist() == [round(n) for n in x.tolist()]
    with pytest.raises(CastError, match="1 of 1 values are out of range"):
        md.astype(md.asarray([target.maximum + 1.0]), target, casting="round")


def test_rounding_casts_of_other_types_are_checked_casts() -> None:
    x = md.asarray([1.5, 2.5 + 2**-20])
    for target in (md.float16, md.bool, md.complex64):
        want = md.astype(x, target).tolist()
        assert md.astype(x, target, casting="round").tolist() == want
    assert md.astype(md.asarray([2.5 + 0j]), md.int8, casting="round").tolist() == [2]
    with pytest.raises(CastError, match="1 of 1 values have an imaginary part"):
        md.astype(md.asarray([2.5 + 1j]), md.int8, casting="round")
    with pytest.raises(CastError, match="1 of 1 values are out of range"):
        md.astype(md.asarray([-0.51]), md.uint8, casting="round")
    assert md.astype(md.asarray([-0.5]), md.uint8, casting="round").tolist() == [0]


def test_exact_casts_name_the_casts_that_round() -> None:
    x = md.asarray([1.5])
    with pytest.raises(CastError) as caught:
        md.astype(x, md.int8, casting="exact")
    assert caught.value.fix == (
        'Use casting="round" to round them, or casting="check" to cut fractions off'
    )
    with pytest.raises(CastError) as caught:
        md.astype(x + 2**-20, md.float16, casting="exact")
    assert caught.value.fix == 'Use casting="round" to round them'


def test_methods_take_numpys_names() -> None:
    x = md.asarray([1.5])
    assert x.astype(dtype=md.int8, order="A").tolist() == [1]
    with pytest.raises(
        md.DispatchError, match="dtype is given by position and by name"
    ):
        x.astype(md.int8, dtype=md.int8)


@pytest.mark.parametrize("own", [md.float32, md.float64], ids=str)
@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32], ids=str)
@given(data=st.data())
def test_reduce_precision_rounds_once_to_even(own: Any, dtype: Any, data: Any) -> None:
    """Exact fractions decide, for numbers in the normal range of the narrower type."""
    digits, _ = PRECISION[dtype.name]
    mantissa = data.draw(st.integers(1 << digits, (1 << digits + 1) - 1))
    exponent, extra = data.draw(st.integers(-8, 3)), data.draw(st.integers(0, 20))
    # A tie, a number next to one, or any other number between two neighbours.
    below = data.draw(st.integers(0, (1 << extra) - 1))
    number = math.ldexp((mantissa << extra) + below, exponent - extra)
    if own is md.float32:
        number = float(np.float32(number))
    unit = Fraction(2) ** (exponent + 1)
    wanted = round(Fraction(number) / unit) * unit
    x = md.asarray([number, -number], dtype=own)
    found = md.reduce_precision(x, dtype)
    assert type(found) is type(x)
    assert found.tolist() == [float(wanted), -float(wanted)]
    assert md.reduce_precision(found, dtype).tolist() == found.tolist()


def test_reduce_precision_at_its_ends() -> None:
    x = md.asarray([70000.0, -1e-9, float("nan"), float("-inf")])
    found = md.reduce_precision(x, "float16").tolist()
    assert found[0] == float("inf") and found[3] == float("-inf")
    assert str(found[1]) == "-0.0" and found[2] != found[2]
    assert md.reduce_precision(x, md.float32).tolist()[:2] == x.tolist()[:2]
    with pytest.raises(OptionError, match="dtype is int8, which is not a type"):
        md.reduce_precision(x, md.int8)
