"""`convolve` and `correlate` against sums of Python numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, ShapeError

SIGNALS = st.lists(st.integers(-9, 9), min_size=1, max_size=7)
MODES = st.sampled_from(["full", "same", "valid"])


def convolved(a: list[Any], b: list[Any], mode: str) -> list[Any]:
    """Return the convolution by its definition."""
    m, n = len(a), len(b)
    every = [
        sum(a[j] * b[i - j] for j in range(m) if 0 <= i - j < n)
        for i in range(m + n - 1)
    ]
    cut = {"full": 0, "same": (min(m, n) - 1) // 2, "valid": min(m, n) - 1}[mode]
    size = {"full": m + n - 1, "same": max(m, n), "valid": abs(m - n) + 1}[mode]
    return every[cut : cut + size]


@given(SIGNALS, SIGNALS, MODES)
def test_integers_by_the_definition(a: list[int], b: list[int], mode: Any) -> None:
    wanted = convolved(a, b, mode)
    for dtype in (md.int16, md.int64, md.float32, md.float64, md.bfloat16):
        x, y = (md.asarray(values, dtype=dtype) for values in (a, b))
        found = md.convolve(x, y, mode=mode)
        assert found.dtype is dtype
        rounded = md.astype(md.asarray(wanted), dtype, casting="round")
        assert found.tolist() == rounded.tolist()
        spec = md.infer("convolve", x, y, mode=mode)
        assert (spec.type, spec.shape) == (type(found), found.shape)


@given(SIGNALS, SIGNALS, MODES)
def test_correlation_against_numpy(a: list[int], b: list[int], mode: Any) -> None:
    for dtype in (np.int32, np.complex128):
        x, y = np.array(a, dtype), np.array(b, dtype)
        if dtype is np.complex128:
            x, y = x + 1j * x[::-1], y * 1j
        found = md.correlate(md.asarray(x), md.asarray(y), mode=mode)
        assert found.tolist() == np.correlate(x, y, mode).tolist()


def test_promotion_wrapping_and_narrow_floats() -> None:
    small = md.asarray([100, 100], dtype=md.int8)
    assert md.convolve(small, small).tolist() == [16, 32, 16]  # modulo 256
    mixed = md.convolve(small, md.asarray([0.5, 0.5]))
    assert (mixed.dtype, mixed.tolist()) == (md.float32, [50.0, 100.0, 50.0])
    # 2048 + 1 + 1 in float16 would stay 2048, if each sum was rounded.
    half = md.asarray([2048, 1, 1], dtype=md.float16)
    ones = md.ones(3, dtype=md.float16)
    assert md.convolve(half, ones, mode="valid").tolist() == [2050.0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: md.convolve(md.ones((2, 2)), md.ones(2)), ShapeError, "x1 has 2 axes"),
        (lambda: md.convolve(md.ones(2), md.zeros(0)), ShapeError, "x2 is empty"),
        (lambda: md.convolve(md.ones(2), md.ones(2), mode="all"), OptionError, "mode"),
        (
            lambda: md.convolve(md.asarray([True]), md.ones(1)),
            DispatchError,
            "x1 is Bo",
        ),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
