"""Sparse constants against an encoder that follows the format."""

from typing import Any

import numpy as np
import pytest

from mdtensor.errors import ModelError
from mdtensor.quant.model.tflite.file import Dimension, Sparsity
from mdtensor.quant.model.tflite.sparse import densify

NONE = np.zeros(0, np.int64)
Array = np.ndarray[Any, Any]


def encode(
    dense: Array, order: tuple[int, ...], blocks: dict[int, int], sparse: set[int]
) -> tuple[Array, Sparsity]:
    """The elements and levels of an array; `blocks` has the size of each block axis."""
    rank = dense.ndim
    sizes = [n // blocks.get(axis, 1) for axis, n in enumerate(dense.shape)]
    sizes += list(blocks.values())
    parts = [
        p for axis, n in enumerate(sizes[:rank]) for p in (n, blocks.get(axis, 0)) if p
    ]
    split = dense.reshape(parts)
    places, at = [], 0
    inner: list[int] = []
    for axis in range(rank):
        places.append(at)
        at += 1
        if axis in blocks:
            inner.append(at)
            at += 1
    tree = split.transpose([[*places, *inner][axis] for axis in order])
    levels, parents = [], [()]
    for _depth, axis in enumerate(order):
        size = sizes[axis]
        if axis not in sparse:
            levels.append(Dimension(size, NONE, NONE))
            parents = [(*p, i) for p in parents for i in range(size)]
            continue
        segments, indices, after = [0], [], []
        for p in parents:
            kept = [i for i in range(size) if tree[(*p, i)].any()]
            indices += kept
            after += [(*p, i) for i in kept]
            segments.append(len(indices))
        levels.append(Dimension(None, np.array(segments), np.array(indices, np.int64)))
        parents = after
    elements = np.array([tree[p] for p in parents])
    return elements, Sparsity(order, tuple(blocks), tuple(levels))


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[int, int], set[int]]] = [
    ((4, 6), (0, 1), {}, {1}),
    ((4, 6), (1, 0), {}, {0}),
    ((4, 6), (0, 1), {}, {0, 1}),
    ((4, 6), (0, 1), {}, set()),
    ((4, 6), (0, 1, 2, 3), {0: 2, 1: 3}, {1}),
    ((4, 6), (0, 1, 2), {1: 2}, {1}),
    ((2, 3, 4, 5), (0, 1, 2, 3), {}, {3}),
    ((2, 3, 4, 8), (0, 1, 2, 3, 4), {3: 4}, {3}),
]


@pytest.mark.parametrize(("shape", "order", "blocks", "sparse"), CASES)
def test_the_dense_array_comes_back(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    blocks: dict[int, int],
    sparse: set[int],
) -> None:
    rng = np.random.default_rng(len(shape))
    dense = rng.normal(size=shape) * (rng.random(shape) < 0.2)
    elements, sparsity = encode(dense, order, blocks, sparse)
    assert densify(elements, shape, sparsity).tolist() == dense.tolist()


@pytest.mark.parametrize(
    "levels",
    [
        (Dimension(4, NONE, NONE), Dimension(9, NONE, NONE)),
        (Dimension(4, NONE, NONE), Dimension(-1, NONE, NONE)),
        (Dimension(2**40, NONE, NONE), Dimension(2**40, NONE, NONE)),
        (Dimension(2, NONE, NONE), Dimension(None, np.array([0, 1]), np.array([0]))),
        (Dimension(1, NONE, NONE), Dimension(None, np.array([0, 1]), np.array([6]))),
        (Dimension(1, NONE, NONE), Dimension(None, np.array([0, 1]), np.array([-1]))),
        (Dimension(1, NONE, NONE), Dimension(None, np.array([1, 1]), NONE)),
        (Dimension(1, NONE, NONE), Dimension(None, NONE, NONE)),
        (Dimension(2, NONE, NONE), Dimension(None, np.array([0, 2, 1]), np.array([0]))),
        (Dimension(2, NONE, NONE),),
    ],
)
def test_levels_that_do_not_fit(levels: tuple[Dimension, ...]) -> None:
    order = tuple(range(len(levels)))
    with pytest.raises(ModelError, match="a sparse tensor is damaged"):
        densify(np.ones(1), (4, 6), Sparsity(order, (), levels))
