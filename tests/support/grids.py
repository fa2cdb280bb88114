"""Random grids and tensors on them, of every type and granularity."""

import numpy as np
from hypothesis import strategies as st

from mdtensor import quant
from mdtensor.quant import (
    QParams,
    qfloat8_e4m3,
    qfloat8_e5m2,
    qint4,
    qint8,
    qint16,
    qint32,
    quint4,
    quint8,
)

NARROW = (qint8, quint8, qint4, quint4)
SCALES = st.sampled_from([0.5, 0.25, 0.1, 0.3, 1.0, 7.0])
EVERY = (*NARROW, qint16, qint32, qfloat8_e4m3, qfloat8_e5m2)


@st.composite
def grids(draw, shape, dtypes=NARROW, scales=SCALES):
    """A random grid, of any granularity, that fits `shape`."""
    dtype = draw(st.sampled_from(dtypes))
    axis = draw(st.sampled_from([None, *range(len(shape))]))
    size = None if axis is None else draw(st.sampled_from([None, 1, 2, 3, 5]))
    narrow = dtype in (qint8, quint8, qint4, quint4, qint16) and draw(st.booleans())
    zero = int(narrow and dtype.minimum == 0)
    like = QParams(1, zero, dtype=dtype, narrow_range=narrow)
    if axis is not None:
        ones = np.ones((1,) * len(shape)) if size else [1]
        like = like.replace(scale=ones, axis=axis, block_size=size)
    counts = like.scales_of(shape)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    some = draw(st.lists(scales, min_size=1, max_size=6))
    zeros = rng.integers(like.minimum, like.maximum + 1, counts)
    is_free = dtype not in quant.dtypes.SYMMETRIC
    return like.replace(
        scale=rng.choice(some, counts), zero_point=zeros if is_free else 0
    )


@st.composite
def pairs(draw, dtypes=NARROW):
    """Two tensors that broadcast, each on a grid of its own."""
    shape = draw(st.lists(st.integers(0, 5), max_size=3).map(tuple))
    shapes = []
    for _ in range(2):
        ones = [1 if draw(st.booleans()) else n for n in shape]
        shapes.append(tuple(ones[draw(st.integers(0, len(shape))) :]))
    return tuple(draw(tensors(dtypes, shape)) for shape in shapes)


@st.composite
def tensors(draw, dtypes=NARROW, shape=None):
    """Random codes on a random grid, of up to 3 axes."""
    if shape is None:
        shape = draw(st.lists(st.integers(0, 6), max_size=3).map(tuple))
    grid = draw(grids(shape, dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if grid.dtype in quant.dtypes.FLOATS:
        finite = 2 * rng.integers(0, 62, shape) + rng.integers(0, 2, shape) * 128
        return quant.tensor.quantized(finite.astype(np.uint8), grid)
    codes = rng.integers(grid.minimum, grid.maximum + 1, shape)
    codes = codes.astype(grid.dtype.storage)
    if shape and draw(st.booleans()):  # every second of twice as many, from behind
        codes = np.repeat(codes, 2, axis=0)[::-1][::2][::-1]
    return quant.tensor.quantized(codes, grid)
