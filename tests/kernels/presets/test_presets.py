"""Rules of rounding in NumPy against the oracle, on random grids."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mdtensor.kernels import presets as powers
from mdtensor.kernels.presets import (
    Grid,
    fixed_point,
    onnx,
    ort,
    tflite,
    xnnpack,
)
from mdtensor.kernels.reference import presets as exact_powers
from mdtensor.kernels.reference.presets import (
    onnx as exact_onnx,
    ort as exact_ort,
    tflite as exact_softmax,
    tflite as exact_tflite,
    xnnpack as exact_xnnpack,
)

LIBRARIES = {
    "tflite": (tflite, exact_tflite),
    "tflite_softmax": (tflite, exact_softmax),
    "xnnpack": (xnnpack, exact_xnnpack),
    "ort": (ort, exact_ort),
    "onnx": (onnx, exact_onnx),
}


def kernels(*names):
    """(kernel, oracle) for each of the names in each library, by a readable id."""
    found = {
        f"{library}-{name}": (getattr(fast, name), getattr(slow, name))
        for library, (fast, slow) in LIBRARIES.items()
        for name in names
        if hasattr(slow, name) and not name.startswith("_")
    }
    return pytest.mark.parametrize("fast, slow", found.values(), ids=found)


SCALES = st.one_of(
    st.floats(2.0**-9, 2.0, width=32).map(np.float32),
    st.integers(-8, 1).map(lambda k: np.float32(2.0**k)),
)
GRIDS = st.one_of(
    st.builds(Grid, SCALES, st.integers(-128, 127), st.just(-128), st.just(127)),
    st.builds(Grid, SCALES, st.integers(0, 255), st.just(0), st.just(255)),
)
SEEDS = st.integers(0, 2**32)
few = settings(max_examples=15)


def codes(grid, seed, size=32):
    """Whole vectors, so that optimized kernels have no rest."""
    return np.random.default_rng(seed).integers(grid.lo, grid.hi + 1, size)


@kernels(
    "add",
    "add_ref",
    "add_opt",
    "add_opt_u8",
    "sub",
    "mul",
    "mul_arm",
    "minimum",
    "maximum",
)
@few
@given(ga=GRIDS, gb=GRIDS, out=GRIDS, seed=SEEDS)
def test_pairs(fast, slow, ga, gb, out, seed):
    a, b = codes(ga, seed), codes(gb, seed + 1)
    wanted = [
        slow(x, y, ga, gb, out) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert fast(a, b, ga, gb, out).tolist() == wanted


@kernels("div")
@few
@given(ga=GRIDS, gb=GRIDS, out=GRIDS, seed=SEEDS)
def test_quotients(fast, slow, ga, gb, out, seed):
    a, b = codes(ga, seed), codes(gb, seed + 1)
    a, b = a[b != gb.zero], b[b != gb.zero]
    wanted = [
        slow(x, y, ga, gb, out) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert fast(a, b, ga, gb, out).tolist() == wanted


@kernels("requantize", "requantize_ref", "requantize_opt", "concat")
@few
@given(source=GRIDS, out=GRIDS, seed=SEEDS)
def test_codes_to_another_grid(fast, slow, source, out, seed):
    given_codes = codes(source, seed)
    for grid in (out, source):
        wanted = [slow(code, source, grid) for code in given_codes.tolist()]
        assert fast(given_codes, source, grid).tolist() == wanted


@kernels("products", "products_ref", "products_opt", "products_arm", "linear_ref")
@few
@given(x=SCALES, w=SCALES, out=GRIDS, seed=SEEDS, bits=st.integers(4, 24))
def test_products(fast, slow, x, w, out, seed, bits):
    acc = np.random.default_rng(seed).integers(-(2**bits), 2**bits, 32)
    grids = Grid(x, 0), Grid(np.float32(w / 2), 0), out
    assert fast(acc, *grids).tolist() == [slow(v, *grids) for v in acc.tolist()]


@kernels("quantize", "quantize_ref", "quantize_opt", "curve")
@few
@given(out=GRIDS, seed=SEEDS)
def test_numbers_to_codes(fast, slow, out, seed):
    rng = np.random.default_rng(seed)
    halves = (rng.integers(-300, 300, 32) + 0.5) * out.scale
    x = np.concatenate([halves, rng.normal(0, 50, 30), [1e30, -1e30]])
    x = x.astype(np.float32)
    assert fast(x, out).tolist() == [slow(v, out) for v in x]


@kernels("global_avg_pool")
@few
@given(x=GRIDS, out=GRIDS, count=st.integers(1, 500), seed=SEEDS)
def test_means(fast, slow, x, out, count, seed):
    rng = np.random.default_rng(seed)
    sums = rng.integers(-255 * count, 255 * count + 1, 32)
    wanted = [slow(total, count, x, out) for total in sums.tolist()]
    assert fast(sums, count, x, out).tolist() == wanted


@kernels("image_mean")
@few
@given(x=GRIDS, out=GRIDS, count=st.integers(1, 70), seed=SEEDS)
def test_means_of_pixels(fast, slow, x, out, count, seed):
    pixels = codes(x, seed, (16, count))
    wanted = [slow(row, x, out) for row in pixels.tolist()]
    assert fast(pixels, x, out).tolist() == wanted


@kernels("mean", "mean_ref", "mean_opt")
@few
@given(x=GRIDS, out=GRIDS, count=st.integers(1, 500), seed=SEEDS)
def test_means_on_another_grid(fast, slow, x, out, count, seed):
    rng = np.random.default_rng(seed)
    sums = rng.integers(x.lo * count, x.hi * count + 1, (2, 16, 1, 1))
    wanted = [slow(total, count, x, out) for total in sums.ravel().tolist()]
    assert fast(sums, count, x, out).ravel().tolist() == wanted


@pytest.mark.parametrize("count", [2**31 + 5, 2**33 + 5, 2**34 + 7])
def test_means_of_more_numbers_than_the_multiplier_takes_bits(count):
    """The multiplier takes 32 bits at most, and the sums here are next to ties."""
    x, out = Grid(np.float32(2.0**9), 0), Grid(np.float32(2.0**-10), -7)
    ties = np.arange(1, 90, 2) * (count // 2**20)
    sums = np.concatenate([ties - 1, ties, ties + 1]).reshape(1, -1, 1, 1)
    wanted = [
        exact_tflite.mean_ref(total, count, x, out) for total in sums.ravel().tolist()
    ]
    assert tflite.mean_ref(sums, count, x, out).ravel().tolist() == wanted


@few
@given(x=GRIDS, y=SCALES, zero=st.integers(-128, 127))
def test_hardswish(x, y, zero):
    every, out = np.arange(x.lo, x.hi + 1), Grid(np.float32(y + x.scale / 100), zero)
    wanted = [exact_tflite.hardswish(code, x, out) for code in every.tolist()]
    assert tflite.hardswish(every, x, out).tolist() == wanted


def test_hardswish_by_the_largest_multiplier():
    """A ratio just below a power of two rounds up to 2**15, too much for 16 bits."""
    every, x = np.arange(-128, 128), Grid(np.float32(0.5), -128)
    out = Grid(np.nextafter(np.float32(0.5 / 128), np.float32(1)), -128)
    wanted = [exact_tflite.hardswish(code, x, out) for code in every.tolist()]
    assert tflite.hardswish(every, x, out).tolist() == wanted
    assert int(tflite._narrow_multiplier(x.scale / 128 / out.scale)[0]) == 2**15 - 1


@pytest.mark.parametrize(
    "name, options",
    [
        ("hardsigmoid", {"alpha": np.float32(0.2), "beta": np.float32(0.5)}),
        ("hardswish", {}),
        ("leaky_relu", {"negative_slope": np.float32(0.3)}),
        ("softsign", {}),
        *((name, {}) for name in ("tanh", "sigmoid", "silu", "mish", "gelu_tanh")),
    ],
)
@few
@given(x=GRIDS, y=SCALES, zero=st.integers(-128, 127))
def test_functions_in_steps(name, options, x, y, zero):
    every, out = np.arange(x.lo, x.hi + 1), Grid(y, zero)
    fast, slow = getattr(onnx, name), getattr(exact_onnx, name)
    wanted = [slow(code, x, out, **options) for code in every.tolist()]
    assert fast(every, x, out, **options).tolist() == wanted


@given(st.integers(-255, 255), SCALES, st.floats(-300, 300, width=32), SCALES)
def test_a_fused_product_rounds_once(a, scale, rest, other):
    b = np.float32(scale / other)
    assert ort.fma(a, b, np.float32(rest)) == exact_ort.fma(a, b, np.float32(rest))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("a", "factor", "rest"),
    [
        # The product is 2**-24 + 2**-54, so the sum is above a tie, by less than
        # float64 holds.
        (65, 16519105, 1.0),
        # The product is 2**-24 - 2**-54, and the nearest even number is above the tie.
        (77, 13944699, 1.0 + 2.0**-23),
    ],
)
def test_a_fused_product_is_rounded_as_the_exact_sum(a, factor, rest, sign):
    b, c = np.float32(factor * 2.0**-54), np.float32(sign * rest)
    wanted = sign * (1.0 + 2.0**-23)
    assert exact_ort.fma(sign * a, b, c) == wanted
    assert ort.fma(sign * a, b, c) == wanted


def test_powers_of_fixed_point_are_near_those_of_e():
    a = -np.arange(1, 2**29, 2**19 - 1)
    found = tflite.exp_negative(a) / 2**31
    # A Taylor series of degree 4 around -1/8 errs by (1/8)**5 / 120 at most.
    assert np.abs(found - np.exp(a / 2**26)).max() < 3e-7


@given(st.floats(2.0**-40, 2.0**20), st.integers(-(2**31), 2**31 - 1))
def test_fixed_point(real, x):
    fast, slow = fixed_point, exact_powers
    assert tuple(map(int, fast.quantize_multiplier(real))) == slow.quantize_multiplier(
        real
    )
    assert int(fast.multiply(np.int64(x), real)) == slow.multiply(x, real)
    q = slow.quantize_multiplier(real)[0]
    assert int(fast.high_mul(np.int64(x), np.int64(q))) == slow.high_mul(x, q)


@kernels("avg_pool")
@few
@given(x=GRIDS, out=GRIDS, seed=SEEDS, taps=st.integers(1, 25))
def test_windows(fast, slow, x, out, seed, taps):
    """Taps of 32 windows, of which the border takes some but the first."""
    images = codes(x, seed, (taps, 1, 1, 4, 8))
    inside = np.random.default_rng(seed).random(images.shape) < 0.7
    inside[0] = True
    found = fast(np.where(inside, images, 0), inside, inside.sum(axis=0), x, out)
    wanted = [
        slow([c for c, is_in in zip(window, holds, strict=True) if is_in], x, out)
        for window, holds in zip(
            images.reshape(taps, -1).T.tolist(),
            inside.reshape(taps, -1).T.tolist(),
            strict=True,
        )
    ]
    assert found.ravel().tolist() == wanted


@kernels("softmax", "softmax_ref", "softmax_opt")
@few
@given(scale=SCALES, seed=SEEDS, size=st.integers(1, 40))
def test_softmax(fast, slow, scale, seed, size):
    x, out = Grid(scale, 3), Grid(np.float32(1 / 256), -128)
    row = codes(x, seed, size)
    assert fast(row, x, out).tolist() == slow(row.tolist(), x, out)


@kernels("softmax")
@few
@given(x=GRIDS, out=GRIDS, seed=SEEDS, size=st.integers(1, 40))
def test_softmax_on_any_grid(fast, slow, x, out, seed, size):
    """Few levels, so that many elements are equal and many shares on ties."""
    row = x.hi - codes(x, seed, size) % 3 * 5
    assert fast(row, x, out).tolist() == slow(row.tolist(), x, out)


def test_powers_are_the_nearest_float32():
    rng = np.random.default_rng(0)
    x = [*rng.uniform(-104, 88.7, 3000), *rng.uniform(-104, -87, 1000), 0.0, -1e4]
    found = powers.exp_f32(np.array(x).reshape(2, -1)).ravel()
    assert found.dtype == np.float32
    for power, number in zip(found, x, strict=True):
        assert power == exact_powers.exp_f32(number)


def test_powers_that_float64_does_not_decide(monkeypatch):
    """Whatever the C library answers: one that errs by three units of float64."""
    x = np.random.default_rng(1).uniform(-100, 80, 200)
    # Integers of 25 bits are ties of float32; powers of their logarithms are near them.
    odd = np.random.default_rng(2).integers(2**23, 2**24, 200) * 2 + 1
    near = np.log(odd.astype(np.float64))
    plain = np.exp
    want = [exact_powers.exp_f32(number) for number in [*x, *near]]
    monkeypatch.setattr(powers.np, "exp", lambda v: plain(v) * (1 + 3 * 2.0**-52))
    found = powers.exp_f32(np.array([*x, *near]))
    assert found.tolist() == [float(power) for power in want]
