"""How codes can lie in memory, and which steps their grids can have."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from support.grids import EVERY, grids

from mdtensor.quant.dtypes import FLOATS
from mdtensor.quant.tensor import quantized

# powers of 2 for ties, any float32, and the ends of what a scale can be
SCALES = st.one_of(
    st.integers(-12, 4).map(lambda e: 2.0**e),
    st.floats(2.0**-20, 2.0**20, width=32),
    st.sampled_from([2.0**-126, 3.4e38]),
)
USUAL_SCALES = st.floats(2.0**-10, 1.0, width=32)


def contiguous(codes):
    return codes


def transposed(codes):
    return np.ascontiguousarray(codes.T).T


def reversed_rows(codes):
    return np.ascontiguousarray(codes[..., ::-1])[..., ::-1]


def every_third(codes):
    return np.repeat(codes, 3, axis=-1)[..., ::3]


def one_for_all(codes):
    """Stride 0 along the first axis."""
    return np.broadcast_to(codes[:1], codes.shape)


LAYOUTS = [contiguous, transposed, reversed_rows, every_third, one_for_all]


def laid(draw: Any, array: Any) -> Any:
    return draw(st.sampled_from(LAYOUTS))(array) if array.ndim else array


def any_codes(draw: Any, shape: Any, dtypes: Any = EVERY, scales: Any = SCALES) -> Any:
    """Any codes, or only those of the ends, on a grid of any granularity; 8-bit floats
    are finite."""
    grid = draw(grids(shape, dtypes, scales))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if grid.dtype in FLOATS:
        every = np.arange(256, dtype=np.uint8)
        every = every[np.isfinite(every.view(grid.dtype.storage).astype(float))]
        return quantized(laid(draw, rng.choice(every, shape)), grid)
    ends = [grid.minimum, grid.maximum]
    codes = rng.integers(ends[0], ends[1] + 1, shape)
    if draw(st.booleans()):
        codes = rng.choice(ends, shape)
    return quantized(laid(draw, np.asarray(codes, grid.dtype.storage)), grid)
