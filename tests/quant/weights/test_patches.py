"""Patches times weights are convolutions; what does not fit is said."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor import DataError, OptionError, ShapeError, quant

RNG = np.random.default_rng(5)
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=60)
@given(
    n=st.integers(0, 2),
    groups=st.integers(1, 3),
    kernel=PAIRS,
    stride=PAIRS,
    dilation=PAIRS,
    padding=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_patches_times_weights_are_the_convolution(n, groups, kernel, **options):
    x = RNG.standard_normal((n, 2 * groups, 8, 9))
    w = RNG.standard_normal((3 * groups, 2, *kernel))
    found = quant.patches(x, kernel, groups=groups, **options)
    wanted = md.conv2d(md.asarray(x), md.asarray(w), None, groups=groups, **options)
    rows = w.reshape(groups, 3, -1)
    products = np.matmul(found, rows.transpose(0, 2, 1))  # groups, positions, 3
    height, width = wanted.shape[2:]
    images = products.reshape(groups, n, height, width, 3).transpose(1, 0, 4, 2, 3)
    wanted = np.asarray(wanted)
    np.testing.assert_allclose(images.reshape(wanted.shape), wanted, atol=1e-10)


def test_they_are_samples_of_a_convolution():
    x = md.asarray(RNG.standard_normal((20, 3, 6, 6), np.float32))
    w = md.asarray(RNG.standard_normal((4, 3, 3, 3), np.float32))
    samples = quant.patches(x, 3, padding=1)
    found = quant.quantize_weights(w, dtype="qint4", method="gptq", samples=samples)
    real = md.asarray(found.numbers().astype(np.float32))
    wanted = np.asarray(md.conv2d(x, w, None, padding=1))
    off = np.asarray(md.conv2d(x, real, None, padding=1)) - wanted
    error = np.linalg.norm(off) / np.linalg.norm(wanted)
    assert found.output_error == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize(
    ("x", "kernel", "options", "error", "said"),
    [
        (
            np.zeros((3, 4, 5)),
            2,
            {},
            ShapeError,
            "images have shape (3, 4, 5). Give [n",
        ),
        (
            np.zeros((1, 4, 2, 2)),
            3,
            {},
            ShapeError,
            "a window of 3 does not fit",
        ),
        (
            np.zeros((1, 4, 5, 5)),
            2,
            {"groups": 3},
            OptionError,
            "into 3 groups. Choose",
        ),
        (
            np.zeros((1, 4, 5, 5)),
            2,
            {"groups": 0},
            OptionError,
            "into 0 groups. Choose",
        ),
        (np.zeros((1, 4, 5, 5)), 0, {}, OptionError, "kernel_size is 0"),
        (np.zeros((1, 4, 5, 5)), 2, {"stride": 0}, OptionError, "stride is 0"),
        ("text", 2, {}, DataError, "a str is not an array of real numbers"),
    ],
)
def test_what_does_not_fit_is_said(x, kernel, options, error, said):
    with pytest.raises(error) as raised:
        quant.patches(x, kernel, **options)
    assert said in str(raised.value)
