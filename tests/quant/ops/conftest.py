"""Tensors that hold every code, or random ones, in every layout of memory."""

import numpy as np
import pytest

import mdtensor as md


def make_tensor(codes, grid):
    return md.leaf(grid.dtype).wrap(np.asarray(codes, grid.dtype.storage), grid)


@pytest.fixture(scope="session")
def tensor():
    """Codes and a grid to a tensor."""
    return make_tensor


@pytest.fixture
def every_code():
    """A grid to the tensor of all its codes."""
    return lambda grid: make_tensor(np.arange(grid.minimum, grid.maximum + 1), grid)


@pytest.fixture
def every_pair():
    """Two grids to two tensors [256, 256] that hold all pairs of codes."""

    def pairs(a, b):
        codes = [np.arange(g.minimum, g.maximum + 1) for g in (a, b)]
        grids = np.meshgrid(*codes, indexing="ij")
        return [make_tensor(*both) for both in zip(grids, (a, b), strict=True)]

    return pairs


@pytest.fixture
def random_codes(rng):
    """A shape and a grid to a tensor of random codes, the ends among them."""

    def codes(shape, grid):
        found = rng.integers(grid.minimum, grid.maximum + 1, shape)
        flat = found.reshape(-1)
        flat[:2] = (grid.minimum, grid.maximum)[: flat.size]
        return make_tensor(found, grid)

    return codes


def reversed_view(codes):
    return np.ascontiguousarray(codes[..., ::-1])[..., ::-1]


def transposed_view(codes):
    return np.ascontiguousarray(codes.T).T


def sliced_view(codes):
    wide = np.repeat(np.repeat(codes, 2, axis=0), 3, axis=-1)
    return wide[::2, ..., ::3]


def read_only(codes):
    copy = codes.copy()
    copy.flags.writeable = False
    return copy


@pytest.fixture(params=[reversed_view, transposed_view, sliced_view, read_only])
def layout(request):
    """A tensor to one of the same codes that lies in memory differently."""

    def relaid(x):
        codes = request.param(x.buffer)
        assert np.array_equal(codes, x.buffer)
        return type(x).wrap(codes, x.qparams)

    return relaid
