"""Steps that resize images: the bytes of NumPy's kernel, on every ISA."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import resize
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.steps import F32
from mdtensor.kernels.numpy import resize as numpy_kernel

HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38])
MODES = ("nearest", "nearest-exact", "bilinear", "bicubic")
LENGTH = st.integers(1, 9)


def run(x: Any, taps: list[Any]) -> Any:
    """Return the resized images of [n, c, h, w], through images channels last."""
    program = Program()
    images = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    step = resize.Resize(taps[1], taps[0])
    slot = program.input(images.shape, F32)
    result = program.append(step, slot)
    assert result.shape == step.output_shape(images.shape)
    (found,) = program.build([result])(images)
    return found.transpose(0, 3, 1, 2)


@given(
    st.tuples(st.integers(1, 2), st.integers(1, 5), LENGTH, LENGTH),
    st.tuples(LENGTH, LENGTH),
    st.sampled_from(MODES),
    st.booleans(),
    st.integers(0, 99),
)
def test_bytes_of_the_call(
    shape: Any, new: Any, mode: str, corners: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(np.float32)
    where = rng.random(shape) < 0.1
    x[where] = rng.choice(SPECIAL, where.sum())
    distances = [Fraction(a, b) for a, b in zip(shape[2:], new, strict=True)]
    corners = corners and not mode.startswith("nearest")
    triples = zip(shape[2:], new, distances, strict=True)
    taps = [numpy_kernel.taps_of(*three, mode, corners) for three in triples]
    with np.errstate(all="ignore"):
        want = numpy_kernel.interpolate(x, new, distances, mode, corners)
        for name in ISAS:
            found = kernel_set.make_on(kernel_set.kernels(name), run, x, taps)
            both = np.isnan(found) & np.isnan(want)
            bits = found.copy().view(np.uint32) == want.copy().view(np.uint32)
            assert (both | bits).all()


def test_an_image_that_is_too_small() -> None:
    taps = np.array([[(5, 0.5), (6, 0.5)]])
    step = resize.Resample(resize.ROWS, taps)
    with pytest.raises(AssertionError, match="too short"):
        step.plan((1, 6, 2, 2))
