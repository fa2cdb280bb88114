"""Pools of codes against windows of rational numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, qint32, quint8
from mdtensor.quant.ops.kernels import NotCompiled
from mdtensor.quant.ops.pool import avg_pool2d_step, global_avg_pool2d_step
from mdtensor.quant.tensor import spec_of

OUTS = [QParams(0.05, -3), QParams(0.125, 7, dtype=quint8), QParams(0.01, dtype=qint32)]
GRID = QParams(0.25, 5)


def windows(x, size, kernel, stride, padding):
    """The index ranges of each window, cut to the image and to the border."""
    top, left, bottom, right = padding
    h, w = x.shape[2:]
    for i, j in np.ndindex(*size):
        y, z = i * stride[0] - top, j * stride[1] - left
        inside = [slice(max(y, 0), min(y + kernel[0], h))]
        inside += [slice(max(z, 0), min(z + kernel[1], w))]
        held = min(y + kernel[0], h + bottom) - y, min(z + kernel[1], w + right) - z
        yield (i, j), x[:, :, inside[0], inside[1]], held[0] * held[1]


@st.composite
def problems(draw):
    """An image, and the options of a pool that fits it."""
    kernel = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    limits = (kernel[0] - 1, kernel[1] - 1) * 2
    options = {
        "kernel_size": kernel,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "padding": tuple(draw(st.integers(0, most)) for most in limits),
        "ceil_mode": draw(st.booleans()),
    }
    size = [k + draw(st.integers(0, 4)) for k in kernel]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.integers(-128, 128, (draw(st.integers(1, 2)), 3, *size))
    return QInt8Tensor(codes.astype(np.int8), GRID), options


@given(problems())
def test_a_maximum_keeps_the_grid(problem):
    x, options = problem
    got = md.max_pool2d(x, **options)
    assert got.qparams == x.qparams
    assert np.array_equal(got.buffer, md.max_pool2d(x.codes, **options).buffer)


@settings(max_examples=80)
@given(problems(), st.booleans(), st.sampled_from(OUTS))
def test_a_mean_rounds_once(exact, problem, with_border, out):
    x, options = problem
    got = md.avg_pool2d(x, **options, count_include_pad=with_border, out=out)
    rest = options["kernel_size"], options["stride"], options["padding"]
    wanted = np.empty(got.shape, object)
    for (i, j), part, held in windows(exact.reals(x), got.shape[2:], *rest):
        count = held if with_border else part.shape[2] * part.shape[3]
        wanted[:, :, i, j] = part.sum(axis=(2, 3)) / count
    assert np.array_equal(got.buffer, exact.codes(wanted, out))


@given(st.tuples(*[st.integers(1, 6)] * 4), st.sampled_from(OUTS))
def test_a_global_mean_rounds_once(exact, shape, out):
    codes = np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)
    x = QUInt8Tensor(codes, scale=0.1, zero_point=77)
    got = md.global_avg_pool2d(x, out=out)
    count = shape[2] * shape[3]
    wanted = exact.reals(x).sum(axis=(2, 3), keepdims=True) / count
    assert np.array_equal(got.buffer, exact.codes(wanted, out))


@pytest.mark.parametrize("zero_point", [0, 255])
def test_a_mean_of_millions_of_codes_is_exact(zero_point):
    shape = (1, 1, 2, 4_300_000)
    codes = np.broadcast_to(np.uint8(255 - zero_point), shape)
    x = QUInt8Tensor.wrap(codes, QParams(1, zero_point, dtype=quint8))
    got = md.global_avg_pool2d(x, out=QParams(2))
    assert got.codes.tolist() == [[[[127 if zero_point == 0 else -128]]]]
    with pytest.raises(NotCompiled, match="a sum of 8600000 codes could leave 32 bits"):
        global_avg_pool2d_step(spec_of(x), out=QParams(2))


@pytest.mark.parametrize("scale", [2.0**-126, 3e38])
@pytest.mark.parametrize("out_scale", [2.0**-126, 1.0, 3e38])
def test_extreme_scales_are_exact_too(scale, out_scale, random_codes, exact):
    x, out = random_codes((1, 2, 3, 3), QParams(scale, 1)), QParams(out_scale, 3)
    wanted = exact.reals(x).sum(axis=(2, 3), keepdims=True) / 9
    for got in (md.avg_pool2d(x, 3, out=out), md.global_avg_pool2d(x, out=out)):
        assert np.array_equal(got.buffer, exact.codes(wanted, out))


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: md.max_pool2d(x, 2),
        lambda x: md.avg_pool2d(x, 2, out=OUTS[0]),
        lambda x: md.global_avg_pool2d(x, out=OUTS[0]),
    ],
)
class TestEveryPool:
    def test_layout_does_not_matter(self, pool, random_codes, layout):
        x = random_codes((2, 3, 4, 5), GRID)
        assert np.array_equal(pool(layout(x)).buffer, pool(x).buffer)

    def test_no_image_is_no_image(self, pool, random_codes):
        assert pool(random_codes((0, 3, 4, 4), GRID)).shape[:2] == (0, 3)
        assert pool(random_codes((2, 0, 4, 4), GRID)).shape[:2] == (2, 0)

    def test_an_image_has_four_axes(self, pool, random_codes):
        with pytest.raises(md.ShapeError, match=r"QInt8Tensor\[3,4,4\]"):
            pool(random_codes((3, 4, 4), GRID))

    def test_a_window_has_one_grid(self, pool):
        x = QInt8Tensor(np.ones((1, 1, 2, 2), np.int8), scale=[1, 2], axis=3)
        with pytest.raises(md.GridError, match="scales differ along axis 3"):
            pool(x)


def test_a_maximum_may_have_a_scale_for_each_channel(exact):
    codes = np.arange(16, dtype=np.int8).reshape(1, 2, 2, 4)
    x = QInt8Tensor(codes, scale=[1, 0.5], axis=1)
    got = md.max_pool2d(x, 2)
    assert exact.reals(got).tolist() == [
        [[[5, 7]], [[Fraction(13, 2), Fraction(15, 2)]]]
    ]


@pytest.mark.parametrize("name", ["avg_pool2d", "global_avg_pool2d"])
def test_the_mean_of_nothing_is_refused(name, random_codes):
    pool = {
        "avg_pool2d": lambda x: md.avg_pool2d(x, 2, padding=1, out=OUTS[0]),
        "global_avg_pool2d": lambda x: md.global_avg_pool2d(x, out=OUTS[0]),
    }[name]
    with pytest.raises(md.ShapeError) as raised:
        pool(random_codes((1, 1, 0, 2), GRID))
    assert str(raised.value) == (
        f"{name}(QInt8Tensor[1,1,0,2]): cannot quantize the mean of an empty tensor."
    )


@pytest.mark.parametrize("name", ["avg_pool2d", "global_avg_pool2d"])
def test_a_mean_needs_out(name, random_codes):
    x = random_codes((1, 1, 2, 2), GRID)
    pools = {"avg_pool2d": lambda: md.avg_pool2d(x, 2)}
    pools["global_avg_pool2d"] = lambda: md.global_avg_pool2d(x)
    with pytest.raises(md.GridError) as raised:
        pools[name]()
    assert str(raised.value) == (
        f"{name}(QInt8Tensor[1,1,2,2]): no grid represents the result exactly; "
        "the grid is (scale=0.25, zero_point=5). "
        "Pass out=QParams(...); the result is rounded to it, once."
    )


def test_the_step_equals_the_method(random_codes):
    x = random_codes((2, 3, 4, 5), QParams(0.25, 5, dtype=quint8))
    image = np.ascontiguousarray(np.moveaxis(x.buffer, 1, -1))
    options = {"stride": 1, "padding": 1, "ceil_mode": False, "count_include_pad": True}
    step = avg_pool2d_step(spec_of(x), kernel_size=2, **options, out=OUTS[1])
    eager = md.avg_pool2d(x, 2, **options, out=OUTS[1])
    assert np.array_equal(np.moveaxis(step(image), -1, 1), eager.buffer)
    wide = md.avg_pool2d(x, 2, **options, out=QParams(2.0**-20, dtype=qint32))
    again = md.quant.requantize(wide, out=OUTS[1]).buffer.astype(int)
    assert np.abs(again - eager.buffer).max() <= 1


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: md.max_pool2d(x, 2, ceil_mode=1),
        lambda x: md.avg_pool2d(x, 2, ceil_mode=1, out=OUTS[0]),
        lambda x: md.avg_pool2d(x, 2, count_include_pad=0, out=OUTS[0]),
    ],
)
def test_switches_are_bools_as_for_numbers(pool, random_codes):
    with pytest.raises(md.OptionError, match="Use True or False"):
        pool(random_codes((1, 2, 4, 4), GRID))
