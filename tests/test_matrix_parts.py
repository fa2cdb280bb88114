"""`diag`, `kron` and indices of triangles against NumPy, and what they refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import DispatchError, OptionError, ShapeError

SIZES = st.integers(0, 4)


@given(st.lists(st.integers(-9, 9), max_size=4), st.integers(-4, 4))
def test_diag_writes_and_reads_a_diagonal(values: list[int], k: int) -> None:
    for dtype in (md.int8, md.bfloat16, md.complex64):
        x = md.asarray(values, dtype=dtype)
        found = md.diag(x, k)
        assert found.dtype is dtype
        assert found.tolist() == np.diag(np.array(values, int), k).tolist()
        assert md.diag(found, k).tolist() == values


def test_diag_of_other_types() -> None:
    assert md.diag(md.asarray([True])).tolist() == [[True]]
    nan = md.diag(md.asarray([float("nan"), 1.0]))
    assert str(nan.tolist()) == "[[nan, 0.0], [0.0, 1.0]]"
    q = quant.QUInt8Tensor([7, 9], scale=0.5, zero_point=7)
    assert md.diag(q).codes.tolist() == [[7, 7], [7, 9]]
    matrix = np.arange(6.0).reshape(2, 3)
    assert np.shares_memory(md.diag(md.asarray(matrix)), matrix)


SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(SHAPES, SHAPES)
def test_kron_against_numpy(one: Any, other: Any) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 9, one), rng.integers(-9, 9, other)
    found = md.kron(md.asarray(a), md.asarray(b))
    wanted = np.kron(a, b)
    assert found.shape == wanted.shape
    assert found.tolist() == wanted.tolist()


def test_kron_of_codes_is_exact() -> None:
    q = quant.QInt8Tensor([[100, 2]], scale=0.5)
    found = md.kron(q, quant.QInt8Tensor([[3], [4]], scale=0.25))
    assert found.codes.tolist() == [[300, 6], [400, 8]]
    assert float(found.scale) == 0.125


@given(SIZES, st.one_of(st.none(), SIZES), st.integers(-5, 5))
def test_triangles_against_numpy(rows: int, columns: Any, k: int) -> None:
    for ours, theirs in (
        (md.tril_indices, np.tril_indices),
        (md.triu_indices, np.triu_indices),
    ):
        found = ours(rows, columns, k=k)
        assert [type(x) for x in found] == [md.Int64Tensor] * 2
        wanted = theirs(rows, k, columns)
        assert [x.tolist() for x in found] == [x.tolist() for x in wanted]


def test_what_they_refuse() -> None:
    with pytest.raises(ShapeError, match=r"x has 3 axes.*linalg.diagonal"):
        md.diag(md.zeros((1, 1, 1)))
    with pytest.raises(OptionError, match="k is"):
        md.diag(md.ones(2), 0.5)  # type: ignore[arg-type]
    with pytest.raises(DispatchError, match="is not a tensor"):
        md.kron(md.ones(2), [1])
    with pytest.raises(OptionError, match="the sizes are -1 and -1"):
        md.tril_indices(-1)
    with pytest.raises(OptionError, match=r"a size is 1\.5"):
        md.triu_indices(2, 1.5)  # type: ignore[arg-type]
