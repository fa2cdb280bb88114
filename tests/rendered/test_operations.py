"""Every operation of rendered loops: the bytes of the host, in each order of threads.

The payload of a NaN is not compared, and neither is the sign of a zero that a maximum
chooses among zeros: NumPy's depends on the place of the element. Functions that IEEE
754 does not decide (exp, tan) are compared within a bound.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import rendered_device

import mdtensor as md
from mdtensor.errors import CastError, DataError, DeviceError, PromotionError
from mdtensor.kernels.emulated.launcher import ORDERS

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
TYPES = [leaf.dtype for leaf in md.leaves()[:15]]
INTEGERS = [t for t in TYPES if t.is_integer]
FLOATS = [t for t in TYPES if t.is_floating]
COMPLEX = [t for t in TYPES if t.is_complex]
REAL = [*INTEGERS, *FLOATS]

EXACT_UNARY = [
    *((name, REAL) for name in ("neg", "positive", "abs", "sign", "square", "conj")),
    *((name, REAL) for name in ("floor", "ceil", "trunc", "round", "relu", "relu6")),
    *((name, FLOATS) for name in ("reciprocal", "sqrt", "isnan", "isinf", "isfinite")),
    *((name, FLOATS) for name in ("signbit", "hardswish")),
    *((name, COMPLEX) for name in ("neg", "positive", "conj", "real", "imag")),
    ("logical_not", [md.bool]),
    ("bitwise_invert", [md.bool, *INTEGERS]),
]
#: Functions without an exact result, and the units in the last place that they may
#: differ from NumPy, in float32 and float64. g++'s library and NumPy's both err.
CLOSE_UNARY = {
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "log2", "log10"), 4),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), 4),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 4),
    **dict.fromkeys(("erf", "sigmoid", "silu"), 4),
}
EXACT_BINARY = [
    *((name, REAL) for name in ("add", "sub", "mul", "div", "maximum", "minimum")),
    *((name, REAL) for name in ("floor_divide", "remainder")),
    *((name, REAL) for name in ("equal", "not_equal", "less", "less_equal")),
    *((name, REAL) for name in ("greater", "greater_equal")),
    *((name, [md.bool, *INTEGERS]) for name in ("bitwise_and", "bitwise_or")),
    *((name, INTEGERS) for name in ("bitwise_left_shift", "bitwise_right_shift")),
    *((name, [md.bool]) for name in ("logical_and", "logical_or", "logical_xor")),
    *((name, COMPLEX) for name in ("add", "sub", "equal", "not_equal")),
    ("bitwise_xor", [md.bool, *INTEGERS]),
    ("copysign", FLOATS),
    ("pow", INTEGERS),
]
CLOSE_BINARY = dict.fromkeys(("atan2", "hypot", "logaddexp", "pow"), 4)


@pytest.fixture(autouse=True)
def ascending() -> Iterator[None]:
    yield
    gpu.order = "ascending"
    gpu.synchronize()


def numbers(dtype: Any, shape: Any, seed: int) -> Any:
    """Elements of a type: small ones, bounds, specials and random bits."""
    rng = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=int))
    if dtype is md.bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_complex:
        part = md.float32 if dtype is md.complex64 else md.float64
        both = [numbers(part, shape, seed + n) for n in (1, 2)]
        made = np.empty(shape, dtype.storage)
        made.real, made.imag = both
        return made
    if dtype.is_integer:
        info = np.iinfo(dtype.storage)
        edges = np.array([info.min, info.max, info.max - 1, 0, 1], dtype.storage)
        wild = rng.integers(info.min, info.max, count, dtype.storage, endpoint=True)
    else:
        edges = np.array([0.0, -0.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-6, 65520])
        wild = rng.integers(0, 256, count * dtype.storage.itemsize, np.uint8)
        wild = wild.view(dtype.storage)
    small = rng.integers(0 if dtype.kind[0] == "u" else -9, 9, count)
    with np.errstate(all="ignore"):
        parts = [part.astype(dtype.storage) for part in (small, wild)]
        parts.append(rng.choice(edges, count).astype(dtype.storage))
    return np.choose(rng.integers(0, 3, count), parts).reshape(shape)


def plain(x: Any) -> Any:
    """The elements as a host array in which all NaNs are one."""
    array = np.array(np.asarray(x))
    for part in (array.real, array.imag) if array.dtype.kind == "c" else (array,):
        with np.errstate(all="ignore"):
            part[part != part] = np.nan if part.dtype.kind not in "biu" else 0
    return array


def same(found: Any, wanted: Any, zeros_alike: bool = False) -> None:
    assert type(found).dtype is type(wanted).dtype
    assert found.device is gpu and found.shape == wanted.shape
    a, b = plain(found.to("cpu")), plain(wanted)
    if zeros_alike and a.dtype.kind not in "biu":
        a, b = (np.where(x == 0, np.zeros((), x.dtype), x) for x in (a, b))
    if a.tobytes() != b.tobytes():
        size = a.dtype.itemsize
        rows = [x.reshape(-1, 1).view(np.uint8).reshape(-1, size) for x in (a, b)]
        at = np.flatnonzero((rows[0] != rows[1]).any(axis=1))[0]
        raise AssertionError(
            f"element {at}: {a.reshape(-1)[at]!r}, the host has {b.reshape(-1)[at]!r}"
        )


def close(found: Any, wanted: Any, ulp: float, near: float = 0) -> None:
    """Compare within units in the last place, of numbers of at least size `near`."""
    assert type(found).dtype is type(wanted).dtype and found.shape == wanted.shape
    a, b = plain(found.to("cpu")), plain(wanted)
    # A narrow float is rounded from float32 once: its neighbour at most.
    if a.dtype.itemsize == 2:
        a, b, ulp, unit = *(x.astype(np.float64) for x in (a, b)), 1, wanted.dtype
        steps = np.maximum(np.abs(b) * 2.0 ** (1 - unit.digits), 2.0**-133)
        steps = np.maximum(steps, 2.0**-24 if unit is md.float16 else 0)
    else:
        with np.errstate(all="ignore"):
            steps = np.spacing(np.abs(b)).astype(np.float64)
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
        wide = np.float64 if wanted.dtype is md.float64 else np.float32
        steps = np.maximum(steps, float(np.spacing(wide(near))))
        fine = (a == b) | ((a != a) & (b != b)) | (gap <= ulp * steps)
    assert fine.all(), (a[~fine][:3], b[~fine][:3])


def moved(*arrays: Any) -> tuple[Any, Any]:
    here = [md.asarray(array) for array in arrays]
    return here, [x.to(gpu) for x in here]


SHAPES = st.sampled_from([(), (0,), (7,), (300,), (3, 1), (2, 0, 3), (2, 3, 5)])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "types"), EXACT_UNARY)
@settings(max_examples=12)
@given(shape=SHAPES, order=st.sampled_from(ORDERS), seed=st.integers(0, 999))
def test_unary(name: str, types: Any, shape: Any, order: str, seed: int) -> None:
    gpu.order, call = order, getattr(md, name)
    pairs = [moved(numbers(dtype, shape, seed)) for dtype in types]
    results = [(call(*there), call(*here)) for here, there in pairs]
    for found, wanted in results:
        same(found, wanted, zeros_alike=name == "relu")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSE_UNARY)
def test_functions_of_floats(name: str) -> None:
    call = getattr(md, name)
    for dtype in FLOATS:
        x = numbers(dtype, (3, 500), 7)
        wide = np.random.default_rng(3).standard_normal(500).astype(dtype.storage)
        for array in (x, wide):
            (here,), (there,) = moved(array)
            close(call(there), call(here), CLOSE_UNARY[name])


def operands(kind: Any, other: Any, shape: Any, seed: int, name: str) -> Any:
    x1, x2 = numbers(kind, shape, seed), numbers(other, shape[-1:], seed + 9)
    if name in ("floor_divide", "remainder") and other.is_integer:
        x2[x2 == 0] = 1
    if name in ("pow", "bitwise_left_shift", "bitwise_right_shift"):
        x2 = np.where(x2 < 0, 1, x2) if name == "pow" else np.where(x2 < 0, 3, x2)
        x2 = x2.astype(other.storage)
    return x1, x2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "types"), EXACT_BINARY)
@settings(max_examples=8)
@given(shape=SHAPES, order=st.sampled_from(ORDERS), seed=st.integers(0, 999))
def test_binary(name: str, types: Any, shape: Any, order: str, seed: int) -> None:
    gpu.order, call = order, getattr(md, name)
    pairs = [moved(*operands(a, a, shape, seed, name)) for a in types]
    # Two operands of one type, the second broadcast, and both views of what is wider.
    results = [(call(*there), call(*here)) for here, there in pairs]
    results += [
        (call(y[::-1], x[..., ::-1]), call(b[::-1], a[..., ::-1]))
        for (a, b), (x, y) in pairs
        if name not in ("pow", "floor_divide", "remainder") and len(shape) == 1
        and "shift" not in name
    ]  # fmt: skip
    for found, wanted in results:
        same(found, wanted, zeros_alike=name in ("maximum", "minimum"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "less", "equal"])
def test_two_types(name: str) -> None:
    call = getattr(md, name)
    every = [md.bool, *REAL]
    pairs = [(a, b) for a in every for b in every if a is not b]
    made = [moved(numbers(a, (40,), 5), numbers(b, (40,), 6)) for a, b in pairs]
    results = []
    for here, there in made:
        try:
            wanted = call(*here)
        except PromotionError as refused:
            # Signed integers and uint64 have no common type, on any device.
            text = str(refused).partition(": ")[2]
            with pytest.raises(PromotionError, match=re.escape(text)):
                call(*there)
            continue
        results.append((call(*there), wanted))
    assert len(results) >= 100
    for found, wanted in results:
        same(found, wanted, zeros_alike=name == "maximum")


@pytest.mark.slow
@pytest.mark.parametrize("name", CLOSE_BINARY)
def test_binary_functions_of_floats(name: str) -> None:
    call = getattr(md, name)
    for dtype in FLOATS:
        here, there = moved(numbers(dtype, (3, 400), 1), numbers(dtype, (400,), 2))
        close(call(*there), call(*here), CLOSE_BINARY[name])


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, -3, 2.5, 1e30, True])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "less", "equal", "where", "max"])
def test_numbers_next_to_tensors(name: str, number: Any) -> None:
    calls = {"where": lambda x: md.where(md.equal(x, x), x, number)}
    calls["max"] = lambda x: md.maximum(number, x)
    call = calls.get(name, lambda x: getattr(md, name)(number, x))
    for dtype in REAL:
        (here,), (there,) = moved(numbers(dtype, (50,), 11))
        try:
            wanted = call(here)
        except md.errors.MdtensorError as error:
            with pytest.raises(type(error)) as caught:
                call(there)
            assert str(caught.value).replace(rendered_device.prefix(gpu), "") == str(
                error
            )
            continue
        same(call(there), wanted, zeros_alike=name == "max")


@pytest.mark.slow
@pytest.mark.parametrize("casting", ["check", "exact", "round", "saturate", "wrap"])
def test_casts(casting: str) -> None:
    """Every pair of types, on values that fit and on values that may not."""
    sources = (md.bool, md.int8, md.uint64, md.int64, md.bfloat16, md.float64)
    targets = (md.bool, md.uint8, md.int64, md.float16, md.float32, md.complex64)
    pairs = [(a, b) for a in sources for b in targets]
    for source, target in pairs:
        if target.is_complex and casting == "saturate":
            continue
        small = np.random.default_rng(0).integers(0, 2, 20).astype(source.storage)
        for array in (small, numbers(source, (200,), 21)):
            (here,), (there,) = moved(array)
            try:
                wanted = md.astype(here, target, casting=casting)
            except CastError as error:
                with pytest.raises(CastError) as caught:
                    md.astype(there, target, casting=casting)
                name = type(there).__name__
                assert str(caught.value) == str(error).replace(
                    type(here).__name__, name
                )
                continue
            same(md.astype(there, target, casting=casting), wanted)


def test_halves_are_rounded_once() -> None:
    """Ties, their neighbours in float64, and 64-bit integers next to ties."""
    rng = np.random.default_rng(1)
    bits = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middles = (bits[1:] + bits[:-1]) / 2
    wide = np.concatenate(
        [bits, middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9)]
    )
    large = rng.integers(0, 2**63, 4000) >> rng.integers(0, 60, 4000)
    odd = (large >> 55 << 55) + rng.integers(-2, 3, 4000) + (1 << 54)
    for target in (md.float16, md.bfloat16):
        for array in (wide, -wide, wide.astype(np.float32), large, odd):
            (here,), (there,) = moved(array)
            kinds = {"casting": "wrap"}
            same(md.astype(there, target, **kinds), md.astype(here, target, **kinds))


def test_narrow_floats_widen_exactly() -> None:
    for storage in (md.float16, md.bfloat16):
        every = np.arange(2**16, dtype=np.uint16).view(storage.storage)
        (here,), (there,) = moved(every)
        same(md.astype(there, md.float32), md.astype(here, md.float32))
        same(md.neg(there), md.neg(here))


AXES = st.sampled_from([None, 0, -1, (0, 2), (), (0, 1, 2)])


@pytest.mark.slow
@settings(max_examples=25)
@given(
    shape=st.sampled_from([(2, 3, 5), (1, 70, 2), (3, 1, 130)]),
    axis=AXES,
    keepdims=st.booleans(),
    order=st.sampled_from(ORDERS),
    seed=st.integers(0, 99),
)
def test_folds(shape: Any, axis: Any, keepdims: bool, order: str, seed: int) -> None:
    gpu.order = order
    options = {"axis": axis, "keepdims": keepdims}
    results = []
    for dtype in [md.bool, *REAL]:
        here, there = (x[0] for x in moved(numbers(dtype, shape, seed)))
        for x, y in ((here, there), (md.flip(here), md.flip(there))):
            for call in folds_of(dtype, axis):
                results.append((call(y, **options), call(x, **options)))
    for found, wanted in results:
        same(found, wanted, zeros_alike=True)


def folds_of(dtype: Any, axis: Any) -> Iterator[Any]:
    """The reductions with the bytes of the host."""
    yield from (md.any, md.all, md.count_nonzero)
    if not dtype.is_floating:
        yield from (md.sum, md.prod)
    if dtype is not md.bool:
        yield from (md.max, md.min)
        if not isinstance(axis, tuple):
            yield from (md.argmax, md.argmin)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_floats_are_within_their_bound(dtype: Any) -> None:
    x = np.random.default_rng(5).standard_normal((4, 1000)).astype(dtype.storage)
    (here,), (there,) = moved(x)
    wide = x.astype(np.float64)
    unit = 2.0**-53 if dtype is md.float64 else 2.0**-24
    bound = (1000 / 64 + 7) * unit * np.abs(wide).sum(axis=1)
    last = 2.0**-dtype.digits
    for call, exact in ((md.sum, wide.sum(axis=1)), (md.mean, wide.mean(axis=1))):
        found = call(there, axis=1)
        assert type(found).dtype is type(call(here, axis=1)).dtype
        gap = np.abs(plain(found.to("cpu")).astype(np.float64) - exact)
        scale = 1 if call is md.sum else 1000
        assert (gap <= bound / scale + 2 * last * np.abs(exact) + 1e-300).all()


@pytest.mark.slow
def test_means_of_integers_and_empty_sums() -> None:
    for dtype in INTEGERS:
        (here,), (there,) = moved(numbers(dtype, (3, 50), 4) // 100)
        close(md.mean(there, axis=1), md.mean(here, axis=1), 2)
    for dtype in REAL:
        (here,), (there,) = moved(np.zeros((2, 0), dtype.storage))
        for call in (md.sum, md.prod):
            same(call(there, axis=1), call(here, axis=1))
    with pytest.raises(md.errors.MdtensorError) as wanted:
        md.max(here, axis=1)
    with pytest.raises(type(wanted.value)):
        md.max(there, axis=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax(name: str, dtype: Any) -> None:
    x = np.random.default_rng(5).standard_normal((4, 90, 3)).astype(dtype.storage) * 4
    (here,), (there,) = moved(x)
    for axis in (0, 1, -1):
        found, wanted = (getattr(md, name)(v, axis=axis) for v in (there, here))
        # A logarithm near 0 has the error of the sum, which is near 1.
        close(found, wanted, 16, near=16 if name == "log_softmax" else 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_movement(dtype: Any) -> None:
    x = numbers(dtype, (2, 3, 4), 8)
    calls = [
        lambda x: md.reshape(x, (4, 6)),
        lambda x: md.reshape(x.T if x.ndim == 2 else md.flip(x), (-1,)),
        lambda x: md.permute_dims(x, (2, 0, 1)),
        lambda x: md.moveaxis(x, 0, -1),
        lambda x: md.reshape(md.permute_dims(x, (2, 0, 1)), (3, 8)),
        lambda x: md.expand_dims(x, axis=1),
        lambda x: md.squeeze(md.expand_dims(x, axis=1), axis=1),
        lambda x: md.broadcast_to(x, (5, 2, 3, 4)),
        lambda x: md.flip(x, axis=(0, 2)),
        lambda x: md.concat([x, md.flip(x)], axis=1),
        lambda x: md.concat([x, x], axis=None),
        lambda x: md.stack([x, md.flip(x)], axis=-1),
        lambda x: md.unstack(x, axis=1)[2],
        lambda x: md.tile(x, (2, 1, 3)),
        lambda x: md.tile(x, (2, 1, 1, 1)),
        lambda x: md.pad(x, ((1, 0), (0, 2), (3, 3))),
        lambda x: md.matrix_transpose(x),
        lambda x: x[1, ..., ::-2],
        lambda x: x[:, None, 1:, -1],
        lambda x: x[0, 1, 2],
        lambda x: x[..., 1, 2],
        lambda x: x[2:],
    ]
    (here,), (there,) = moved(x)
    for found, wanted in [(call(there), call(here)) for call in calls]:
        same(found, wanted)


def test_views_share_memory_and_copies_do_not() -> None:
    x = md.zeros((2, 3), device=gpu)
    row, turned, copy = x[1], x.T, md.reshape(x.T, (6,))
    x[1] = 5
    assert row.tolist() == [5, 5, 5] and turned.tolist()[0] == [0, 5]
    assert copy.tolist() == [0.0] * 6
    x[:, 1:] = x[:, :2]
    assert x.tolist() == [[0, 0, 0], [5, 5, 5]]
    x[0] = md.asarray([1, 2, 3], dtype=md.int8, device=gpu)
    assert x.tolist()[0] == [1, 2, 3]
    with pytest.raises(md.errors.WriteError):
        md.broadcast_to(x, (4, 2, 3))[0] = 1
    with pytest.raises(md.errors.OptionError, match="do not allow a view of shape"):
        md.reshape(x.T, (6,), copy=False)


@pytest.mark.slow
def test_clip() -> None:
    for dtype in REAL:
        (here,), (there,) = moved(numbers(dtype, (100,), 3))
        for low, high in ((0, 5), (None, 3), (2, None), (None, None), (5, 5)):
            found, wanted = (md.clip(x, low, high) for x in (there, here))
            same(found, wanted, zeros_alike=True)
        bounds = md.asarray(np.full(100, 4, dtype.storage))
        same(md.clip(there, bounds.to(gpu)), md.clip(here, bounds))


@pytest.mark.slow
def test_where() -> None:
    truth = numbers(md.bool, (40,), 1)
    for a in TYPES:
        here, there = moved(truth, numbers(a, (40,), 2), numbers(a, (40,), 3))
        same(md.where(*there), md.where(*here))


def test_errors_of_elements_are_those_of_the_host() -> None:
    x = md.asarray([1, 0, 3], dtype=md.int8).to(gpu)
    for call, words in (
        (lambda: md.floor_divide(x, x), "1 of 3 divisors are 0"),
        (lambda: md.remainder(x, 0), "1 of 1 divisors are 0"),
        (lambda: md.pow(x, x - 3), "2 of 3 exponents are negative, and int8 cannot"),
        (lambda: x << (x - 1), "1 of 3 shift counts are negative"),
    ):
        with pytest.raises(DataError, match=words):
            call()


def test_mixed_devices_and_missing_operations() -> None:
    here, there = md.asarray([1.0]), md.asarray([1.0]).to(gpu)
    for call in (
        lambda: here + there,
        lambda: there + here,
        lambda: md.less(there, here),
        lambda: md.where(there > 0, here, there),
        lambda: md.clip(there, here),
        lambda: md.concat([there, here]),
        lambda: md.atan2(here, there),
    ):
        with pytest.raises(
            DeviceError, match=r"operands are on [\w:]+ and [\w:]+. Move one"
        ):
            call()
    for call in (
        lambda: md.linalg.svdvals(md.reshape(there, (1, -1))),
        lambda: md.fft.rfft(there),
        lambda: md.linalg.qr(md.reshape(there, (1, -1))),
        lambda: md.sum(there, dtype=md.complex64),
        lambda: md.prod(there, dtype=md.complex128),
    ):
        with pytest.raises(md.NoMethodError, match=rf"no method for {gpu} yet\. Move"):
            call()


def test_registry_which_and_support_agree_with_calls() -> None:
    x = md.asarray([1.0]).to(gpu)
    method = md.registry.get("add", gpu)[0]
    assert method.location.startswith("mdtensor/rendered/arithmetic.py:")
    assert gpu in md.registry.devices_of(md.which(md.add, x, x).method)
    assert gpu not in md.registry.devices_of(md.which(md.nextafter, x, x).method)
    with pytest.raises(md.errors.DispatchError, match=f"nextafter: no method on {gpu}"):
        md.registry.get("nextafter", gpu)


def test_nothing_moves_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    x = md.asarray([1.0, 2.0]).to(gpu)
    reads: list[Any] = []
    monkeypatch.setattr(type(gpu), "to_host", lambda self, b: reads.append(b))
    y = md.softmax(md.exp(x * 2 + 1))
    md.sum(md.concat([y, x]), axis=0)
    md.astype(y, md.float64)
    assert not reads
