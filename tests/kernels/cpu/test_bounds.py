"""No kernel touches a byte outside its arrays: an unreadable page lies beside them."""

import ctypes
import mmap
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.windows import draw_window

from mdtensor.kernels.cpu.program import products, steps

WIDTHS = (1, 3, 8, 24, 40, 88, 200)


def guarded(array, at_end):
    """A copy of `array` right before an unreadable page, or else right behind one."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    room = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(room))
    libc = ctypes.CDLL(None, use_errno=True)
    for edge in (start, start + page + size):
        assert libc.mprotect(ctypes.c_void_p(edge), page, 0) == 0
    offset = page + size - array.nbytes if at_end else page
    flat = np.frombuffer(room, array.dtype, array.size, offset)
    flat[:] = array.reshape(-1)
    return flat.reshape(array.shape)


def cases(c):
    """(step, input shapes) with c channels."""
    rng = np.random.default_rng(c)

    def conv(oc, kernel, groups=1, stride=(1, 1)):
        weight = rng.integers(
            -128, 128, (oc, c // groups, kernel, kernel), dtype=np.int8
        )
        for ratios in (None, [Fraction(1, 300)] * oc):
            yield products.Conv2d(
                weight,
                padding=(kernel // 2,) * 4,
                groups=groups,
                stride=stride,
                ratios=ratios,
            )

    images = (1, 3, 5, c)
    for oc in (2, c):
        for kernel in (1, 3):
            yield from ((step, [images]) for step in conv(oc, kernel))
            yield from ((step, [(2, 1, 1, c)]) for step in conv(oc, kernel))
    for kernel, stride in ((3, (1, 1)), (5, (2, 1)), (3, (2, 2)), (7, (1, 3))):
        for step in conv(c, kernel, c, stride):
            yield step, [images]
            yield step, [(1, 9, 17, c)]
    yield from random_windows(rng, c)
    yield steps.Lookup(np.zeros(256, np.uint8)), [images]
    yield steps.Add((Fraction(1, 3), Fraction(1, 2)), (3, 4)), [images, images]
    yield steps.Mul(Fraction(1, 64), (3, 4)), [images, images]
    yield steps.Mul(Fraction(1, 64), (3, 4)), [images, (1, 1, 1, c)]
    yield steps.Mean(Fraction(1), 3), [images]
    yield steps.MaxPool((2, 2), (1, 1)), [images]
    yield steps.AvgPool((2, 2), (1, 1), ratio=Fraction(1), x_zero_point=0), [images]
    yield steps.Quantize(0.1, 3), [images]
    for padded in (c, c + 1):
        quantize = steps.Quantize(0.1, 3, channels_first=True, padded_channels=padded)
        yield quantize, [(1, c, 3, 5)]
    yield steps.Dequantize(0.1, 3), [images]


def random_windows(rng, c):
    """(step, input shapes) of convolutions whose windows hardly fit their images."""
    for groups in [c, 1] * 10:
        size, kernel, stride, padding, dilation = draw_window(rng)
        weight = rng.integers(-128, 128, (c, c // groups, *kernel), dtype=np.int8)
        window = {"stride": stride, "padding": padding, "dilation": dilation}
        for ratios in (None, [Fraction(1, 300)] * c):
            step = products.Conv2d(weight, groups=groups, ratios=ratios, **window)
            yield step, [(2, *size, c)]


def visit(c):
    """Call every case with guarded inputs; outputs must equal unguarded calls."""
    rng = np.random.default_rng(c)
    for step, shapes in cases(c):
        arrays = [
            rng.integers(0, 256, shape).astype(dtype)
            for shape, dtype in zip(shapes, step.input_types, strict=True)
        ]
        want = step(*arrays)
        for at_end in (False, True):
            found = step(*(guarded(array, at_end) for array in arrays))
            assert np.array_equal(found, want), step.kernel


@pytest.mark.long
@pytest.mark.compiled
@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
def test_inputs_lie_beside_an_unreadable_page():
    # in a process of its own, since a stray read ends the process
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(Path(__file__))],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    for width in WIDTHS:
        visit(width)
