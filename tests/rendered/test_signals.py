"""Convolution and correlation of signals on a device: the bytes of NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support import rendered_device
from support.on_device import gpu, there

import mdtensor as md
from mdtensor.errors import OptionError, ShapeError

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
MODES = ("full", "same", "valid")
CALLS = (md.convolve, np.convolve), (md.correlate, np.correlate)
TYPES = [md.int8, md.uint16, md.int64, md.float16, md.float32, md.float64]


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(TYPES), st.data())
def test_signals_of_any_lengths(m: int, n: int, dtype: Any, data: Any) -> None:
    """Whole numbers, so every order of a sum is exact; integers wrap."""
    rng = np.random.default_rng((m, n))
    first, second = (rng.integers(0, 99, k).astype(dtype.storage) for k in (m, n))
    second = second if dtype.bits > 16 else second % 8
    mode = data.draw(st.sampled_from(MODES))
    for call, wanted_of in CALLS:
        wanted = wanted_of(first, second, mode)
        found = call(*there([md.asarray(first), md.asarray(second)]), mode=mode)
        assert found.dtype is dtype and found.device is gpu
        array = np.asarray(found.to("cpu"))
        # float16 is rounded once here, and after each sum in NumPy.
        if dtype is md.float16:
            wide = [x.astype(np.float64) for x in (first, second)]
            wanted = wanted_of(*wide, mode).astype(np.float16)
        assert array.tobytes() == wanted.tobytes(), (call, mode)


def test_signals_of_two_types_and_views() -> None:
    a, b = md.asarray(np.arange(12, dtype=np.int16)), md.asarray([0.5, -2.0, 1.0])
    for call, _ in CALLS:
        for x, y in ((a[::-2], b), (b, a[3:9]), (b[::-1], b)):
            wanted, found = call(x, y, mode="full"), call(*there([x, y]), mode="full")
            assert found.dtype is wanted.dtype
            assert found.tolist() == wanted.tolist()


def test_what_is_outside_of_a_signal_is_not_multiplied() -> None:
    x, y = md.asarray([np.inf, 1.0]), md.asarray([1.0, 2.0, np.nan])
    for call, wanted_of in CALLS:
        for mode in MODES:
            found = np.asarray(call(*there([x, y]), mode=mode).to("cpu"))
            wanted = wanted_of(np.asarray(x), np.asarray(y), mode)
            np.testing.assert_array_equal(found, wanted)


def test_wrong_signals() -> None:
    x = md.asarray([1.0, 2.0]).to(gpu)
    with pytest.raises(OptionError, match="mode"):
        md.convolve(x, x, mode="half")
    with pytest.raises(ShapeError, match="x2 is empty"):
        md.correlate(x, x[:0])
