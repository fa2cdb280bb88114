"""Comparison of every pair of codes as rational numbers."""

import itertools
import operator

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QInt4Tensor,
    QInt8Tensor,
    QInt16Tensor,
    QInt32Tensor,
    QParams,
    qfloat8_e4m3,
    qint32,
    quint8,
)

OPERATIONS = {
    md.equal: operator.eq,
    md.not_equal: operator.ne,
    md.less: operator.lt,
    md.less_equal: operator.le,
    md.greater: operator.gt,
    md.greater_equal: operator.ge,
}
named = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda f: f.__name__)
PAIRS = [
    (QParams(0.5, 3), QParams(0.25, 101, dtype=quint8)),
    (QParams(0.02, -7), QParams(0.05, 1)),
    (QParams(0.1, 1), QParams(0.1, 255, dtype=quint8)),
]


@named
@pytest.mark.parametrize("grids", PAIRS)
def test_every_pair_of_codes(operation, grids, every_pair, exact):
    a, b = every_pair(*grids)
    got = operation(a, b)
    assert type(got) is md.BoolTensor and got.buffer.dtype == bool
    wanted = OPERATIONS[operation](exact.reals(a), exact.reals(b))
    assert np.array_equal(got.buffer, wanted.astype(bool))


@named
@pytest.mark.parametrize("scales", [(1e300, 2.0**-126), (1e-300, 1e300), (3.0, 1e-9)])
def test_accumulators_at_the_ends(operation, scales, tensor, exact):
    codes = np.array([-(2**31), -1, 0, 1, 2**31 - 1])
    a, b = (tensor(codes, QParams(s, dtype=qint32)) for s in scales)
    a, b = md.expand_dims(a, axis=1), md.expand_dims(b, axis=0)
    wanted = OPERATIONS[operation](exact.reals(a), exact.reals(b))
    assert np.array_equal(operation(a, b).buffer, wanted.astype(bool))


@named
@pytest.mark.parametrize("scale", [0.5, 2.0**-126])
def test_scalars_and_nothing(operation, scale):
    one, other = QInt8Tensor(3, scale=0.5), QInt8Tensor(3, scale=scale)
    got = operation(one, other)
    assert isinstance(got.buffer, np.ndarray) and got.shape == ()
    assert bool(got) is OPERATIONS[operation](0.5, scale)
    none = QInt8Tensor(np.zeros((0, 2), np.int8), scale=0.5)
    assert operation(none, other).shape == (0, 2)


@named
def test_layout_does_not_matter(operation, random_codes, layout):
    a, b = (random_codes((4, 6), grid) for grid in PAIRS[0])
    wanted = operation(a, b).buffer
    assert np.array_equal(operation(layout(a), layout(b)).buffer, wanted)


@named
def test_accumulators_and_scaled_floats_are_refused(operation):
    half = QFloat8E4M3Tensor([56, 56], scale=0.5)
    with pytest.raises(md.PromotionError, match="cannot be compared exactly"):
        operation(half, QInt32Tensor([1, 2], scale=0.5))


@named
def test_numbers_compare_on_all_other_grids(operation, exact):
    """Scales along an axis, in blocks, of floats: one element after another."""
    given = [
        QInt8Tensor([[2, 4, -1, 8]], scale=[0.5, 0.25, 1, 0.1], axis=1),
        QInt4Tensor([[2, 1, -1, 3]], scale=[[0.5, 1]], axis=1, block_size=3),
        QInt16Tensor([[4, 4, -4, 12]], scale=0.25),
        quant.quantize(md.asarray([[1.0, 1, -1, 3]]), QParams(2, dtype=qfloat8_e4m3)),
    ]
    for a, b in itertools.product(given, repeat=2):
        pairs = zip(exact.reals(a).ravel(), exact.reals(b).ravel(), strict=True)
        wanted = [OPERATIONS[operation](p, q) for p, q in pairs]
        assert operation(a, b).tolist() == [wanted]
