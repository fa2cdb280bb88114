"""Frames and copies side by side, in programs, against NumPy."""

import numpy as np
import pytest

from mdtensor.kernels.cpu.program.frames import Pad, Tile
from mdtensor.kernels.cpu.program.program import Program

SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 3, 2, 5)]


def numbers(rng, dtype, shape):
    return rng.integers(0, 256, shape).astype(dtype)


def run(step, x):
    program = Program()
    slot = program.input(x.shape, x.dtype)
    found = program.build([program.append(step, slot)])(x)[0]
    assert found.shape == step.output_shape(x.shape)
    return found


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_pad(dtype, shape, rng):
    for _ in range(8):
        widths = rng.integers(0, 3, (len(shape), 2))
        widths[rng.integers(len(shape)), rng.integers(2)] = 1
        x, fill = numbers(rng, dtype, shape), int(rng.integers(256))
        found = run(Pad(widths.tolist(), fill, dtype), x)
        wanted = np.pad(x, widths, constant_values=fill)
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("fill", [np.inf, -np.inf, np.nan, -0.0])
def test_a_frame_of_any_float(fill, rng):
    x = rng.standard_normal((2, 3), np.float32)
    found = run(Pad([(0, 1), (2, 0)], fill, np.float32), x)
    wanted = np.pad(x, [(0, 1), (2, 0)], constant_values=fill)
    assert np.array_equal(found.view(np.uint32), wanted.view(np.uint32))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_tile(dtype, shape, rng):
    for _ in range(8):
        counts = rng.integers(1, 4, len(shape)).tolist()
        x = numbers(rng, dtype, shape)
        assert np.array_equal(run(Tile(counts, shape, dtype), x), np.tile(x, counts))
    assert np.array_equal(run(Tile([1] * len(shape), shape, dtype), x), x)
