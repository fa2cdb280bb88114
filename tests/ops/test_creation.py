"""Tensors from values, sizes and arrays."""

import array
import gc
import math
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from support.each import each

import mdtensor as md
from mdtensor.errors import (
    CastError,
    DeviceError,
    DispatchError,
    ExchangeError,
    MdtensorError,
    OptionError,
    PromotionError,
    ProtocolError,
    ShapeError,
)

LEAVES = md.leaves()[:15]
BF16 = md.bfloat16.storage.type


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


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
        (1j, md.Complex64Tensor),
        ([1, 2.5, 1j], md.Complex64Tensor),
        ([np.uint8(1)], md.UInt8Tensor),
        ([np.uint8(1), 2], md.UInt8Tensor),
        ([[np.int8(1), np.uint8(1)]], md.Int16Tensor),
        ([np.uint8(1), 0.5], md.Float32Tensor),
        ([np.float16(1), 0.5, True], md.Float16Tensor),
        ([np.float32(1), 1j], md.Complex64Tensor),
        ([np.bool_(True), 1], md.Int64Tensor),
        ([np.zeros(2, np.int8), [1, 2]], md.Int8Tensor),
        ([BF16(1), 0.5], md.BFloat16Tensor),
        (np.ones(2, BF16), md.BFloat16Tensor),
        (array.array("f", [1, 2]), md.Float32Tensor),
        pytest.param(memoryview(b"ab"), md.UInt8Tensor, id="memoryview"),
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


@each(
    "call, error",
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
        (lambda: md.arange(0.0, 3.0, dtype=md.int8), CastError),
        (lambda: md.arange(3, dtype=md.bool), CastError),
        (lambda: md.arange(10**400, 10**400 + 2), CastError),
        (lambda: md.arange(10**400, 10**400 + 2, dtype=md.float64), OptionError),
        (lambda: md.arange(math.inf), OptionError),
        (lambda: md.arange("a"), OptionError),
        (lambda: md.arange(1j), OptionError),
        (lambda: md.arange(2**62), ShapeError),
        (lambda: md.arange(1e38), ShapeError),
        (lambda: md.linspace(0, math.nan, 2), OptionError),
        (lambda: md.linspace(0, 10**400, 2), OptionError),
        (lambda: md.linspace(0, 1, 2.0), OptionError),
        (lambda: md.linspace(0, 1, -1), OptionError),
        (lambda: md.linspace(0, 1j, 2, dtype=md.float32), CastError),
        (lambda: md.linspace(0, 9.0, 2, dtype=md.int8), CastError),
        (lambda: md.linspace(0, 128, 2, dtype=md.int8), CastError),
        (lambda: md.eye(-1), ShapeError),
        (lambda: md.eye(2.0), OptionError),
        (lambda: md.eye(2, k="a"), OptionError),
        (lambda: md.full(2, [1, 2]), ShapeError),
        (lambda: md.zeros(2, device="moon"), DeviceError),
        (lambda: md.zeros(2, device="cuda"), DeviceError),
        (lambda: md.full_like(md.ones(2, dtype=md.int8), 300), CastError),
        (lambda: md.tril(md.ones(2)), ShapeError),
        (lambda: md.triu(md.ones((2, 2)), k=0.5), OptionError),
        (lambda: md.meshgrid(md.ones((2, 2))), ShapeError),
        (lambda: md.meshgrid(md.ones(2), indexing="ji"), OptionError),
        (lambda: md.meshgrid([1, 2]), DispatchError),
        (lambda: md.from_dlpack([1]), ProtocolError),
        (lambda: md.asarray([1], copy=1.5), OptionError),
        (lambda: md.asarray([np.int8(1), np.uint64(1)]), PromotionError),
        (lambda: md.asarray([np.uint8(1), 300]), CastError),
        (lambda: md.asarray({1}), CastError),
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


def test_huge_results_are_refused() -> None:
    for make in (md.zeros, md.ones, md.empty, lambda shape: md.full(shape, 1)):
        with pytest.raises(ShapeError, match="the result does not fit into memory"):
            make((2**30, 2**30))
    assert text(ShapeError, lambda: md.zeros((2**30, 2**30))) == (
        "zeros(tuple): the result does not fit into memory. Ask for fewer elements."
    )
    assert text(ShapeError, lambda: md.ones((2, -1))) == (
        "ones(tuple): shape (2, -1) has a negative size. Use sizes of 0 or more."
    )


def test_copies_as_asked() -> None:
    array_, x = np.zeros(2, np.int8), md.asarray([1.0])
    assert md.asarray(array_, copy=False).buffer is array_
    assert md.asarray(x, copy=False) is x
    for source, shared in ((array_, array_), (x, x.buffer)):
        found = md.asarray(source, copy=True)
        assert not np.shares_memory(found.buffer, shared)
        assert found.tolist() == shared.tolist()
    foreign = np.array([1, 2], ">i4")
    assert md.asarray(foreign).tolist() == [1, 2]
    assert md.asarray(foreign).buffer.dtype == np.int32
    assert text(OptionError, lambda: md.asarray([1], copy=False)) == (
        "asarray(list): the result needs a copy. Use copy=None."
    )
    for values, dtype in ((x, md.float64), (array_, md.int32), (foreign, None)):
        with pytest.raises(OptionError, match="the result needs a copy"):
            md.asarray(values, dtype=dtype, copy=False)


def test_sequences_of_tensors() -> None:
    x, y = md.asarray([1.0, 2.0]), md.asarray([3, 4], dtype=md.int8)
    found = md.asarray([x, y])
    assert type(found) is md.Float32Tensor
    assert found.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert md.asarray([x[0], 5]).tolist() == [1.0, 5.0]
    assert type(md.asarray([y, y], dtype=md.bfloat16)) is md.BFloat16Tensor


class Foreign:
    """Another library's array, on the device that it says."""

    def __init__(self, kind: int) -> None:
        self.kind, self.array = kind, np.arange(3)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0


def test_from_dlpack() -> None:
    other = Foreign(1)
    for make in (md.from_dlpack, md.asarray):
        found = make(other)
        assert type(found) is md.Int64Tensor
        assert np.shares_memory(found.buffer, other.array)
        assert not np.shares_memory(make(other, copy=True).buffer, other.array)
    x = md.asarray([1.0], dtype=md.bfloat16)
    assert md.from_dlpack(x, device="cpu", copy=False) is x
    assert text(ExchangeError, lambda: md.from_dlpack(Foreign(8))) == (
        "from_dlpack(Foreign): the array is on DLPack's device (8, 0). "
        "Move it to the host first."
    )
    other.array = np.ones(2, BF16)
    with pytest.raises(ExchangeError, match=r"^from_dlpack\(Foreign\): the memory"):
        md.from_dlpack(other)


@pytest.mark.parametrize("leaf", LEAVES)
def test_like(leaf: Any) -> None:
    x = md.broadcast_to(md.ones((), dtype=leaf.dtype), (2, 3))
    for like, value in ((md.zeros_like, 0), (md.ones_like, 1)):
        found = like(x)
        assert (type(found), found.shape) == (leaf, (2, 3))
        assert (found.buffer == value).all()
        assert found.buffer.flags.writeable
        assert type(like(x, dtype="float32", device="cpu")) is md.Float32Tensor
    assert (md.full_like(x, True).buffer == 1).all()
    assert (type(md.empty_like(x)), md.empty_like(x).shape) == (leaf, (2, 3))
    assert md.full_like(x, 2.5, dtype=md.float16).tolist() == [[2.5] * 3] * 2


@given(st.integers(0, 4), st.integers(0, 4), st.integers(-5, 5))
def test_diagonals_against_numpy(rows: int, columns: int, k: int) -> None:
    found = md.eye(rows, columns, k=k, dtype=md.int8)
    assert found.tolist() == np.eye(rows, columns, k, np.int8).tolist()
    x = md.asarray(np.arange(2 * rows * columns).reshape(2, rows, columns))
    assert md.tril(x, k=k).tolist() == np.tril(x.buffer, k).tolist()
    assert md.triu(x, k=k).tolist() == np.triu(x.buffer, k).tolist()


@pytest.mark.parametrize("leaf", LEAVES)
def test_diagonals_of_every_type(leaf: Any) -> None:
    x = md.ones((2, 2), dtype=leaf.dtype)
    for found in (md.tril(x), md.triu(x), md.eye(2, dtype=leaf.dtype)):
        assert type(found) is leaf
        assert found.buffer.dtype == leaf.dtype.storage
    assert (md.tril(x).buffer == np.tri(2)).all()
    assert md.eye(2).tolist() == [[1.0, 0.0], [0.0, 1.0]]


INTEGERS = [leaf.dtype for leaf in LEAVES if leaf.dtype.is_integer]


@given(
    st.integers(-(2**65), 2**65),
    st.integers(-8, 8),
    st.integers(-(2**62), 2**62).filter(bool),
    st.sampled_from(INTEGERS),
)
def test_arange_of_integers_is_exact(
    start: int, count: int, step: int, dtype: md.DType
) -> None:
    for first in (start, start % 100, dtype.maximum - 3):
        for width in (step, step % 3 + 1):
            stop = first + count * width
            want = list(range(first, stop, width))
            if all(dtype.minimum <= value <= dtype.maximum for value in want):
                if want or dtype.minimum <= first <= dtype.maximum:
                    found = md.arange(first, stop, width, dtype=dtype)
                    assert (found.dtype, found.tolist()) == (dtype, want)
            else:
                with pytest.raises(CastError):
                    md.arange(first, stop, width, dtype=dtype)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(1e3, 1e6))
def test_arange_of_floats_counts_exactly(
    start: float, stop: float, step: float
) -> None:
    for width in (step, -step):
        found = md.arange(start, stop, width, dtype=md.float64).tolist()
        exact = (Fraction(stop) - Fraction(start)) / Fraction(width)
        assert len(found) == max(0, math.ceil(exact))
        for i, value in enumerate(found):
            want = Fraction(start) + i * Fraction(width)
            assert abs(Fraction(value) - want) <= 1e-9


def test_arange_in_every_floating_type() -> None:
    for dtype in (md.float16, md.bfloat16, md.float32, md.float64, md.complex64):
        assert md.arange(4, dtype=dtype).tolist() == [0, 1, 2, 3]
        assert md.arange(1, 2, 0.5, dtype=dtype, device="cpu").tolist() == [1, 1.5]


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(FINITE, FINITE, st.integers(0, 20), st.booleans())
def test_linspace(start: float, stop: float, num: int, endpoint: bool) -> None:
    found = md.linspace(start, stop, num, dtype=md.float64, endpoint=endpoint).tolist()
    parts = num - 1 if endpoint else num
    assert len(found) == num
    width = abs(Fraction(stop) - Fraction(start)) + abs(Fraction(start))
    for i, value in enumerate(found):
        part = Fraction(i, parts) if parts else Fraction(0)
        want = Fraction(start) + part * (Fraction(stop) - Fraction(start))
        assert abs(Fraction(value) - want) <= width * 2 ** Fraction(-50) + 2**-1074
        assert min(start, stop) <= value <= max(start, stop)
    if num:
        assert found[0] == start
    if num > 1 and endpoint:
        assert found[-1] == stop


WHOLE = (md.int8, md.int64, md.uint8, md.uint64)


@given(st.sampled_from(WHOLE), st.data(), st.integers(0, 20), st.booleans())
def test_linspace_of_integers_rounds_down(
    dtype: Any, data: st.DataObject, num: int, endpoint: bool
) -> None:
    start, stop = (data.draw(st.integers(dtype.minimum, dtype.maximum)) for _ in "ab")
    found = md.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    parts = max(num - 1 if endpoint else num, 1)
    assert found.dtype is dtype
    assert found.tolist() == [start + i * (stop - start) // parts for i in range(num)]


def test_diagonals_far_outside_of_a_matrix() -> None:
    x = md.ones((2, 3))
    for k in (2**70, -(2**70)):
        assert md.eye(2, 3, k=k).tolist() == md.zeros((2, 3)).tolist()
        assert md.tril(x, k=k).tolist() == (x if k > 0 else 0 * x).tolist()
        assert md.triu(x, k=k).tolist() == (x if k < 0 else 0 * x).tolist()


def test_linspace_types() -> None:
    assert type(md.linspace(0, 1, 3)) is md.Float32Tensor
    assert type(md.linspace(0, 1j, 3)) is md.Complex64Tensor
    assert md.linspace(1, 1 + 2j, 3).tolist() == [1, 1 + 1j, 1 + 2j]
    assert md.linspace(0, 256, 257, dtype=md.bfloat16).tolist() == list(range(257))
    assert md.linspace(3, 4, 1).tolist() == [3.0]


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_meshgrid_against_numpy(indexing: Any, count: int) -> None:
    arrays = [np.arange(n + 2, dtype=np.int8) for n in range(count)]
    found = md.meshgrid(*map(md.asarray, arrays), indexing=indexing)
    want = np.meshgrid(*arrays, indexing=indexing)
    assert isinstance(found, tuple)
    assert [x.tolist() for x in found] == [x.tolist() for x in want]
    assert all(type(x) is md.Int8Tensor for x in found)


def test_meshgrid_takes_single_numbers() -> None:
    x, y = md.meshgrid(md.asarray(1), md.asarray([2.0, 3.0]))
    assert (x.tolist(), y.tolist()) == ([[1], [1]], [[2.0], [3.0]])


def test_constants() -> None:
    assert (md.e, md.pi, md.inf, md.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(md.nan)
    assert md.asarray([1, 2])[md.newaxis].shape == (1, 2)


def test_bounds_may_be_0_d() -> None:
    zero, one, three = md.asarray(0.0), np.asarray(1.0), md.asarray(3)
    assert md.linspace(zero, one, 3).tolist() == [0, 0.5, 1]
    assert md.arange(three).tolist() == md.arange(np.int8(0), three).tolist()
    assert md.linspace(0, three, 4, dtype=md.int8).tolist() == [0, 1, 2, 3]


def test_ends_do_not_become_infinite() -> None:
    for call in (
        lambda: md.linspace(0, 1e39, 3),
        lambda: md.arange(0, 1e39, 3e38),
        lambda: md.linspace(0, 7e4, 3, dtype=md.float16),
    ):
        with pytest.raises(CastError, match="represents"):
            call()


def test_a_class_of_numbers_is_not_kept_alive() -> None:
    number = type("Number", (int,), {})
    x = md.asarray([number(3), number(4)])
    assert (x.dtype, x.tolist()) == (md.int64, [3, 4])
    assert md.asarray([number(3), 1.5]).dtype is md.float32
    kept = weakref.ref(number)
    del number
    gc.collect()
    assert kept() is None
