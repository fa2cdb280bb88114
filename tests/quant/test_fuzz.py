"""Any quantized call on any grids, shapes and layouts: the exact result, or our error.

The oracle is Python's Fraction, element by element. The longer tier is marked slow.
Damaged model files, at the end, must end in an error of ours or run, in bounded time
and memory.
"""

import random
import time
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import damaged_models
from support.grids import NARROW
from support.layouts import LAYOUTS, SCALES, USUAL_SCALES

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams

SIZES = st.sampled_from([1, 2, 3, 5, 17])


@st.composite
def grids(draw, scales=SCALES, count=0, axis=None):
    """A grid per tensor, or of `count` scales along `axis`; zero points at the ends."""
    dtype = draw(st.sampled_from(NARROW))
    plain = QParams(1, dtype=dtype)
    ends = st.sampled_from([plain.minimum, plain.maximum, 0])
    zero = draw(ends | st.integers(plain.minimum, plain.maximum))
    if not count:
        return QParams(draw(scales), zero, dtype=dtype)
    steps = draw(st.lists(scales, min_size=count, max_size=count))
    return QParams(steps, zero, dtype=dtype, axis=axis)


@st.composite
def tensors(draw, shape, grid=None):
    """Codes of a shape, any or only the ends of the range, in any layout."""
    grid = draw(grids()) if grid is None else grid
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(grid.minimum, grid.maximum + 1, shape)
    if draw(st.booleans()):
        codes = rng.choice([grid.minimum, grid.maximum], shape)
    codes = np.asarray(codes, grid.dtype.storage)
    laid = draw(st.sampled_from(LAYOUTS))(codes) if codes.ndim else codes
    return md.leaf(grid.dtype).from_codes(laid, grid)


def check(exact, wanted, call, out):
    """`call()` gives the numbers `wanted`, on `out` rounded once, or our error."""
    try:
        got = call()
    except md.MdtensorError as error:
        assert out is None, f"refused: {error}"
        return
    assert got.shape == wanted.shape
    if out is None:
        assert np.array_equal(exact.reals(got), wanted)
    else:
        assert got.qparams == out
        assert np.array_equal(np.asarray(got.codes), exact.codes(wanted, out))


def to(out):
    return {} if out is None else {"out": out}


MAYBE_GRID = st.none() | grids()
PAIRS = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def pairs(exact, data):
    """Sums, differences and products of tensors of shapes that broadcast."""
    shape = tuple(data.draw(st.lists(SIZES, max_size=3)))
    other = tuple(data.draw(st.sampled_from([n, 1])) for n in shape)
    other = other[data.draw(st.integers(0, len(other))) :]
    a, b = data.draw(tensors(shape)), data.draw(tensors(other))
    if data.draw(st.booleans()):
        a, b = b, a
    name, out = data.draw(st.sampled_from(list(PAIRS))), data.draw(MAYBE_GRID)
    wanted = np.asarray(PAIRS[name](exact.reals(a), exact.reals(b)), object)
    check(exact, wanted, lambda: getattr(md, name)(a, b, **to(out)), out)


def product_of_rows(exact, data):
    """linear, with a scale for each row of weights, and matmul of the same."""
    m, k, n = (data.draw(SIZES) for _ in range(3))
    x = data.draw(tensors((m, k)))
    count = data.draw(st.sampled_from([0, n]))
    w = data.draw(tensors((n, k), data.draw(grids(USUAL_SCALES, count, 0))))
    out = data.draw(MAYBE_GRID)
    wanted = exact.reals(x) @ exact.reals(w).T
    check(exact, wanted, lambda: md.linear(x, w, None, **to(out)), out)
    columns = type(w).from_codes(np.asarray(w.codes).T, w.qparams.on_axis(1))
    check(exact, wanted, lambda: md.matmul(x, columns, **to(out)), out)


@st.composite
def windows(draw, least_padding=0):
    """Options of a window, and a size that it fits into, maybe only with padding."""
    kernel = draw(st.tuples(*[st.integers(1, 3)] * 2))
    padding = draw(st.tuples(*[st.integers(least_padding, 3)] * 2))
    stride = draw(st.tuples(*[st.sampled_from([1, 2, 7])] * 2))
    dilation = draw(st.tuples(*[st.sampled_from([1, 2, 4])] * 2))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    least = [max(1, r - 2 * p) for r, p in zip(reach, padding, strict=True)]
    size = tuple(n + draw(st.integers(0, 3)) for n in least)
    return kernel, size, {"padding": padding, "stride": stride, "dilation": dilation}


def taps(x, kernel, padding, stride, dilation, fill):
    """[kh * kw, n, c, oh, ow]: what lies under each tap."""
    edges = ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    x = np.pad(x, edges, constant_values=fill)
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)
    ]
    places = [
        [np.arange(size) * s + d * i for i in range(k)]
        for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    return np.stack([x[:, :, r][:, :, :, c] for r in places[0] for c in places[1]])


def convolution(exact, data):
    """Groups, depthwise ones too; a scale for each output."""
    kernel, size, options = data.draw(windows())
    groups, per_group, per_output = (data.draw(st.integers(1, 3)) for _ in range(3))
    n, count = data.draw(st.integers(1, 2)), groups * per_output
    x = data.draw(tensors((n, groups * per_group, *size)))
    scales = data.draw(st.sampled_from([0, count]))
    grid = data.draw(grids(USUAL_SCALES, scales, 0))
    w = data.draw(tensors((count, per_group, *kernel), grid))
    out = data.draw(MAYBE_GRID)
    under = taps(exact.reals(x), kernel, fill=Fraction(0), **options)
    weights = exact.reals(w).reshape(count, per_group, -1)
    wanted = np.stack(
        [
            sum(
                under[t, :, o // per_output * per_group + i] * weights[o, i, t]
                for i in range(per_group)
                for t in range(len(under))
            )
            for o in range(count)
        ],
        axis=1,
    )
    call = partial(md.conv2d, x, w, None, groups=groups, **options, **to(out))
    check(exact, wanted, call, out)


def pooling(exact, data):
    """Maxima, and means that count their padding or do not."""
    kernel, size, options = data.draw(windows())
    padding = tuple(
        min(p, k // 2) for p, k in zip(options["padding"], kernel, strict=True)
    )
    size = tuple(max(n, k) for n, k in zip(size, kernel, strict=True))
    stride = options["stride"]
    window = {"kernel_size": kernel, "stride": stride, "padding": padding}
    x = data.draw(tensors((data.draw(st.integers(1, 2)), data.draw(SIZES), *size)))
    reals = exact.reals(x)
    lowest = min([Fraction(-(10**60)), *reals.ravel()])
    wanted = taps(reals, kernel, padding, stride, (1, 1), lowest).max(axis=0)
    got = md.max_pool2d(x, **window)
    assert got.qparams == x.qparams and np.array_equal(exact.reals(got), wanted)
    out, is_counted = data.draw(grids()), data.draw(st.booleans())
    under = taps(reals, kernel, padding, stride, (1, 1), Fraction(0))
    ones = taps(np.ones(x.shape, int), kernel, padding, stride, (1, 1), 0).sum(axis=0)
    counts = np.full(ones.shape, len(under)) if is_counted else ones
    wanted = under.sum(axis=0) / counts.astype(object)
    call = partial(md.avg_pool2d, x, **window, count_include_pad=is_counted, out=out)
    check(exact, wanted, call, out)


def reduction(exact, data):
    """Means, sums and maxima over some axes."""
    shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=3)))
    x, out = data.draw(tensors(shape)), data.draw(grids())
    axis = data.draw(st.sampled_from([None, *range(len(shape))]))
    count = x.size if axis is None else shape[axis]
    total = np.asarray(exact.reals(x).sum(axis=axis), object)
    check(exact, np.asarray(total / count), lambda: md.mean(x, axis=axis, out=out), out)
    check(exact, total, lambda: md.sum(x, axis=axis), None)
    most = np.asarray(exact.reals(x).max(axis=axis), object)
    check(exact, most, lambda: md.max(x, axis=axis), None)


def conversion(exact, data):
    """To another grid, to float32 and back."""
    shape = tuple(data.draw(st.lists(st.sampled_from([0, 1, 3, 17]), max_size=3)))
    count, axis = (shape[0], 0) if shape and shape[0] else (0, None)
    count = data.draw(st.sampled_from([0, count]))
    x = data.draw(tensors(shape, data.draw(grids(USUAL_SCALES, count, axis))))
    out = data.draw(grids())
    check(exact, exact.reals(x), lambda: quant.requantize(x, out=out), out)
    numbers = quant.dequantize(x)
    nearest = [float(np.float32(float(v))) for v in exact.reals(x).ravel()]
    assert np.asarray(numbers).ravel().tolist() == nearest
    reals = np.array([*map(Fraction, nearest), None], object)[:-1].reshape(shape)
    check(exact, reals, lambda: quant.quantize(numbers, qparams=out), out)


FAMILIES = [pairs, product_of_rows, convolution, pooling, reduction, conversion]


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=60)
@given(data=st.data())
def test_any_call_is_exact(exact, family, data):
    family(exact, data)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=1500)
@given(data=st.data())
def test_any_call_is_exact_at_length(exact, family, data):
    family(exact, data)


ANY_SIZE = st.sampled_from([0, 1, 2, 3, 5])
ODD = st.sampled_from(
    [0, 1, 2, 3, -1, 7, 10**9, 2**31, 2**62, 2**63, 1.5, None, "same", (), (1, 2, 3)]
)
ANY_WINDOW = ODD | st.tuples(ODD, ODD)


def odd_tensor(data, ndim):
    """Any shape, empty ones too, and scales along any axis that has elements."""
    shape = tuple(data.draw(ANY_SIZE) for _ in range(ndim))
    axes = [None, *(a for a, n in enumerate(shape) if n)]
    axis = data.draw(st.sampled_from(axes))
    count = 0 if axis is None else shape[axis]
    return data.draw(tensors(shape, data.draw(grids(SCALES, count, axis))))


def any_arguments(data):
    """A call that may make no sense."""
    ndims = st.integers(0, 4)
    name = data.draw(
        st.sampled_from(["add", "mul", "div", "matmul", "linear", "conv2d"])
    )
    if name in ("add", "mul", "div", "matmul"):
        a, b = (odd_tensor(data, data.draw(ndims)) for _ in range(2))
        return partial(getattr(md, name), a, b, **to(data.draw(MAYBE_GRID)))
    ndim = 4 if name == "conv2d" else data.draw(st.sampled_from([0, 1, 2, 3]))
    x, w = odd_tensor(data, ndim), odd_tensor(data, 4 if name == "conv2d" else 2)
    options = to(data.draw(MAYBE_GRID))
    if name == "conv2d":
        keys = data.draw(st.sets(st.sampled_from(["stride", "padding", "dilation"])))
        options |= {key: data.draw(ANY_WINDOW) for key in sorted(keys)}
        options["groups"] = data.draw(st.sampled_from([1, 2, 3, 0, -1, 2**62]))
    return partial(getattr(md, name), x, w, None, **options)


def any_window(data):
    """A pool or a reduction that may make no sense."""
    x, out = odd_tensor(data, data.draw(st.integers(0, 4))), data.draw(MAYBE_GRID)
    name = data.draw(st.sampled_from(["max_pool2d", "avg_pool2d", "mean", "softmax"]))
    if name in ("mean", "softmax"):
        axis = data.draw(st.sampled_from([0, 1, -1, 3, -9, 2**63, 1.0, (0, 0)]))
        return partial(getattr(md, name), x, axis=axis, **to(out))
    options = {"kernel_size": data.draw(ANY_WINDOW)}
    keys = data.draw(st.sets(st.sampled_from(["stride", "padding", "ceil_mode"])))
    options |= {key: data.draw(ANY_WINDOW) for key in sorted(keys)}
    return partial(
        getattr(md, name), x, **options, **(to(out) if name[0] == "a" else {})
    )


def answers(make, data):
    """The call gives a result or an error of ours, nothing else."""
    call = make(data)
    try:
        call()
    except md.MdtensorError as error:
        assert str(error)


@pytest.mark.parametrize("make", [any_arguments, any_window])
@settings(max_examples=150)
@given(data=st.data())
def test_any_error_is_ours(make, data):
    answers(make, data)


@pytest.mark.slow
@pytest.mark.parametrize("make", [any_arguments, any_window])
@settings(max_examples=10_000)
@given(data=st.data())
def test_any_error_is_ours_at_length(make, data):
    answers(make, data)


# --- damaged model files --------------------------------------------------------------

SECONDS = 20


def survives(seed, folder, every):
    """Load, plan, call and save a damaged model: results, or errors of ours.

    Returns the seconds of processor time, which other processes do not lengthen.
    """
    rng = random.Random(seed)
    data, arrays = damaged_models.base(rng, every)
    path = folder / "mutant.onnx"
    path.write_bytes(damaged_models.mutate(data, rng))
    start = time.process_time()
    try:
        model = quant.load(path, budget=quant.Budget(seconds=SECONDS / 2))
        model(arrays)
        model.save(folder / "again.onnx")
        quant.load(folder / "again.onnx")
    except md.MdtensorError as error:
        assert str(error)
    return time.process_time() - start


def survive(seeds, folder, every):
    """Name the seeds that end otherwise, each with what happened."""
    failures = {}
    for seed in seeds:
        try:
            # A foreign warning is printed for the user, so it is an error, too.
            with warnings.catch_warnings(action="error"):
                # The first time may compile kernels; what is slow stays slow.
                if survives(seed, folder, every) > SECONDS:
                    assert survives(seed, folder, every) < SECONDS
        except Exception as error:
            failures[seed] = f"{type(error).__name__}: {error}"[:200]
    assert not failures


def test_damaged_models_end_in_our_errors(tmp_path, little_memory):
    survive(range(150), tmp_path, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_damaged_models_end_in_our_errors_at_length(part, tmp_path, little_memory):
    survive(range(1000 * part, 1000 * (part + 1)), tmp_path, every=True)
