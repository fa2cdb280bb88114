"""Tensors from values, sizes and arrays."""

from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import (
    CastError,
    DeviceError,
    MdtensorError,
    OptionError,
    ShapeError,
)

DENSE = [
    leaf
    for leaf in md.leaves()[:15]
    if leaf.dtype not in (md.bfloat16, md.complex64, md.complex128)
]

LEAVES = DENSE


@pytest.mark.parametrize(
    ("values", "leaf"),
    [
        (True, md.BoolTensor),
        ([True, False], md.BoolTensor),
        (1, md.Int64Tensor),
        ([True, 2], md.Int64Tensor),
        ([[1], [-2]], md.Int64Tensor),
        ([2**63], md.UInt64Tensor),
        ([1, 2**63], md.UInt64Tensor),
        (1.0, md.Float32Tensor),
        ([1, 2.5], md.Float32Tensor),
        ([], md.Float32Tensor),
        (np.float64(1), md.Float64Tensor),
        (np.zeros(2, np.uint8), md.UInt8Tensor),
        (range(3), md.Int64Tensor),
    ],
    ids=str,
)
def test_natural_types(values: Any, leaf: type) -> None:
    found = md.asarray(values)
    assert type(found) is leaf
    assert found.tolist() == np.asarray(values).tolist()


@pytest.mark.parametrize("leaf", LEAVES)
def test_asarray_with_a_type(leaf: Any) -> None:
    values = [True, False] if leaf is md.BoolTensor else [1, 0]
    for dtype in (leaf.dtype, leaf.dtype.name, leaf.dtype.storage):
        found = md.asarray(values, dtype=dtype)
        assert type(found) is leaf
        assert found.tolist() == values


def test_asarray_shares_what_is_one_already() -> None:
    x, array = md.asarray([1.0]), np.zeros(2, np.int8)
    assert md.asarray(x) is x
    assert md.asarray(x, dtype=md.float32, device="cpu") is x
    assert md.asarray(array).buffer is array
    assert md.asarray(x, dtype=md.float64).tolist() == [1.0]
    assert md.asarray(array, dtype=md.int32).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: md.asarray([-1, 2**63]), CastError),
        (lambda: md.asarray([2**64]), CastError),
        (lambda: md.asarray([300], dtype=md.uint8), CastError),
        (lambda: md.asarray([1.0], dtype=md.uint8), CastError),
        (lambda: md.asarray(np.array([300]), dtype=md.uint8), CastError),
        (lambda: md.asarray(["a"]), CastError),
        (lambda: md.asarray([1j], dtype=md.float32), CastError),
        (lambda: md.asarray(None), CastError),
        (lambda: md.asarray([[1], [2, 3]]), ShapeError),
        (lambda: md.asarray([1], dtype="int7"), OptionError),
        (lambda: md.asarray([1], device="moon"), DeviceError),
        (lambda: md.full((2,), 300, dtype=md.int8), CastError),
        (lambda: md.full((-1,), 1), ShapeError),
        (lambda: md.zeros((2, 0.5)), OptionError),
        (lambda: md.empty((-1,)), ShapeError),
        (lambda: md.arange(3, step=0), OptionError),
        (lambda: md.arange(300, dtype=md.int8), CastError),
    ],
)
def test_what_is_refused(call: Any, error: type[MdtensorError]) -> None:
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("leaf", LEAVES)
def test_filled(leaf: Any) -> None:
    for shape, sizes in (((2, 3), (2, 3)), ((), ()), (4, (4,)), ([0, 2], (0, 2))):
        for make, value in ((md.zeros, 0), (md.ones, 1)):
            found = make(shape, dtype=leaf.dtype)
            assert type(found) is leaf
            assert found.shape == sizes
            assert (found.buffer == value).all()
        assert md.empty(shape, dtype=leaf.dtype).shape == sizes


def test_full() -> None:
    assert type(md.full((2,), 1)) is md.Int64Tensor
    assert type(md.full((2,), 1.5)) is md.Float32Tensor
    assert type(md.full((2,), True)) is md.BoolTensor
    assert md.full((2, 1), 0.5).tolist() == [[0.5], [0.5]]
    assert (
        type(md.zeros(2)) is type(md.ones(2)) is type(md.empty(2)) is md.Float32Tensor
    )


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ((3,), [0, 1, 2]),
        ((1, 4), [1, 2, 3]),
        ((5, 0, -2), [5, 3, 1]),
        ((0,), []),
        ((1.0, 2.0, 0.25), [1.0, 1.25, 1.5, 1.75]),
    ],
)
def test_arange(arguments: tuple[float, ...], want: list[float]) -> None:
    assert md.arange(*arguments).tolist() == want
    assert md.arange(*arguments, dtype=md.float64).tolist() == want


def test_arange_of_nothing_keeps_its_type() -> None:
    assert type(md.arange(0)) is type(md.arange(3)) is md.Int64Tensor
    assert type(md.arange(0.0)) is md.Float32Tensor
