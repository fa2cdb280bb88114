"""How tensors leave: Python numbers, NumPy arrays, DLPack, pickles and copies."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import interop, quant
from mdtensor.errors import (
    CastError,
    DispatchError,
    ExchangeError,
    GridError,
    MdtensorError,
    OptionError,
    ShapeError,
    type_and_shape,
)

LEAVES = md.leaves()[:15]


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def layouts(leaf: type[md.Tensor]) -> list[Any]:
    """Tensors of zeros and ones: plain, strided, 0-d, empty, read-only, repeated."""
    whole = (np.arange(12).reshape(3, 4) % 2).astype(leaf.dtype.storage)
    row = whole[1].copy()
    row.flags.writeable = False
    views = (whole, whole.T, whole[::-2, ::3], whole[1, 1, ...], whole[:0], row)
    return [leaf.wrap(view) for view in (*views, np.broadcast_to(row, (5, 4)))]


@pytest.mark.parametrize("leaf", LEAVES)
def test_pickles_and_copies_stand_alone(leaf: type[md.Tensor]) -> None:
    for x in layouts(leaf):
        for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
            assert type(twin) is leaf
            assert (twin.shape, twin.tolist()) == (x.shape, x.tolist())
            assert twin.buffer.dtype == leaf.dtype.storage
            assert twin.buffer.flags.writeable
            assert not np.shares_memory(twin.buffer, x.buffer)


def test_a_copy_keeps_the_order_of_its_axes_in_memory() -> None:
    x = md.from_numpy(np.zeros((3, 4, 5), np.float32).transpose(2, 0, 1))
    assert copy.copy(x).buffer.strides == x.buffer.strides == (4, 80, 20)


def test_quantized_copies_keep_their_grid() -> None:
    x = quant.QInt8Tensor([1, 2], scale=0.5)
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert twin.qparams == x.qparams
        assert twin.codes.tolist() == [1, 2]
        assert not np.shares_memory(twin.buffer, x.buffer)


def test_a_view_is_pickled_alone() -> None:
    column = md.zeros((1000, 1000))[:, 0]
    assert len(pickle.dumps(column)) < 10_000


@pytest.mark.parametrize("leaf", LEAVES)
def test_reading_one_element(leaf: type[md.Tensor]) -> None:
    one = leaf.wrap(np.ones((1, 1), leaf.dtype.storage))
    kind = complex if leaf.dtype.is_complex else float
    kind = int if leaf.dtype.is_integer else kind
    kind = bool if leaf.dtype is md.bool else kind
    assert (one.item(), type(one.item())) == (1, kind)
    assert bool(one) is True
    assert (complex(one), type(complex(one))) == (1, complex)
    if kind is not complex:
        assert (float(one), int(one)) == (1.0, 1)
    number = md.reshape(one, ())
    if leaf.dtype.is_integer:
        assert list(range(4))[number] == 1
        number = one  # NumPy would drop an axis for each one in brackets
    assert text(DispatchError, lambda: [1, 2][number]) == (
        f"{type_and_shape(number)} is not an index. "
        "Use a 0-d tensor of integers, or int(x)."
    )


def test_what_is_not_one_number() -> None:
    for read in (float, int, bool, complex):
        assert text(ShapeError, lambda read=read: read(md.ones((2,)))) == (
            f"{read.__name__}(Float32Tensor[2]): expected one element, got 2. "
            "Index or reduce it first."
        )
    assert text(ShapeError, lambda: md.zeros((0,)).item()) == (
        "item(Float32Tensor[0]): expected one element, got 0. Index or reduce it first."
    )
    for read in (float, int):
        assert text(DispatchError, lambda read=read: read(md.asarray(1j))) == (
            f"{read.__name__}(Complex64Tensor[]): a complex number is not a "
            f"{read.__name__}. Use real(x) or complex(x)."
        )
    with pytest.raises(GridError):
        quant.QInt8Tensor([1], scale=0.5).item()


@pytest.mark.parametrize("leaf", LEAVES)
def test_numpy_reads_without_copying(leaf: type[md.Tensor]) -> None:
    for x in layouts(leaf):
        assert np.asarray(x) is x.buffer
        assert np.asarray(x, leaf.dtype.storage, copy=False) is x.buffer
        assert not np.shares_memory(np.array(x, copy=True), x.buffer)


def test_numpy_asks_for_another_type() -> None:
    x = md.asarray([1.0, 2.0])
    assert np.asarray(x, np.float64).tolist() == [1.0, 2.0]
    assert np.asarray(x, md.float64).dtype == np.float64
    assert text(OptionError, lambda: np.asarray(x, np.float64, copy=False)) == (
        "__array__(Float32Tensor[2]): float32 needs a copy to become float64, but "
        "copy is False. Use copy=None."
    )


@each("leaf", LEAVES)
@each("wanted", [np.float16, np.float32, int, np.uint8, bool])
def test_numpy_casts_as_its_caller_says(leaf: type[md.Tensor], wanted: Any) -> None:
    x = leaf.wrap(
        np.asarray([0, 1, 2.5, 100.75], np.float32).astype(leaf.dtype.storage)
    )
    if leaf.dtype.is_complex and wanted is not bool:
        with pytest.warns(np.exceptions.ComplexWarning):
            found = np.asarray(x, dtype=wanted)
    else:
        found = np.asarray(x, dtype=wanted)
    assert found.dtype == wanted
    number = np.asarray([0, 1, 2.5, 100.75], np.float32).astype(leaf.dtype.storage)
    assert found.tolist() == np.real(number).astype(wanted).tolist()
    assert not np.shares_memory(found, x.buffer) or wanted == x.buffer.dtype


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
def test_bytes_are_the_memory(leaf: type[md.Tensor]) -> None:
    for x in layouts(leaf):
        assert bytes(x) == x.buffer.tobytes()
        assert len(bytes(x)) == x.nbytes
    with pytest.raises(GridError, match="is not an array of numbers"):
        bytes(quant.QInt8Tensor([1], scale=0.5))


def test_integers_of_one_element_are_exact() -> None:
    large = md.asarray([2**62 + 1])
    for rounded in (int, math.trunc, math.floor, math.ceil):
        assert rounded(large) == 2**62 + 1
    for value in (-2.5, -0.5, 1.5, 1e18):
        x = md.asarray(value, dtype=md.float64)
        for rounded in (int, math.trunc, math.floor, math.ceil):
            assert rounded(x) == rounded(value)
            assert type(rounded(x)) is int
    for rounded in (math.trunc, math.floor, math.ceil):
        with pytest.raises(ShapeError, match="expected one element, got 2"):
            rounded(md.ones((2,)))
        with pytest.raises(CastError, match="nan is not an integer"):
            rounded(md.asarray(math.nan))
        with pytest.raises(DispatchError, match="a complex number is not a"):
            rounded(md.asarray(1j))


class Foreign:
    """Another library's array, which knows nothing but DLPack."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("leaf", LEAVES)
def test_dlpack_there_and_back(leaf: type[md.Tensor]) -> None:
    for x in layouts(leaf):
        back = interop.import_array(Foreign(x))
        assert (back.dtype, back.shape) == (leaf.dtype.storage, x.shape)
        assert back.tolist() == x.tolist()
        assert back.flags.writeable == x.buffer.flags.writeable
        assert np.shares_memory(back, x.buffer) or not x.size
        twin = md.from_dlpack(Foreign(x), copy=True)
        assert (type(twin), twin.tolist()) == (leaf, x.tolist())
        assert not np.shares_memory(twin.buffer, x.buffer)


def test_dlpack_with_numpy() -> None:
    x = md.asarray([1, 2])
    assert np.shares_memory(np.from_dlpack(x), x.buffer)
    assert x.__dlpack_device__() == (1, 0)
    assert np.shares_memory(interop.import_array(x.buffer), x.buffer)


def test_dlpack_without_versions() -> None:
    class Old(Foreign):
        def __dlpack__(self, stream: Any = None) -> Any:
            return self.x.__dlpack__(stream=stream)

    for x in (md.asarray([1, 2]), md.asarray([1.0], dtype=md.bfloat16)):
        back = interop.import_array(Old(x))
        assert np.shares_memory(back, x.buffer)
        assert back.dtype == x.buffer.dtype


def test_what_dlpack_refuses() -> None:
    x = md.from_numpy(np.broadcast_to(np.float32(1), (3,)))
    assert issubclass(ExchangeError, MdtensorError)
    assert issubclass(ExchangeError, BufferError)
    assert text(ExchangeError, lambda: x.__dlpack__()) == (
        "__dlpack__(Float32Tensor[3]): DLPack before 1.0 cannot mark a buffer as "
        "read-only. Use copy=True, or max_version=(1, 0)."
    )
    assert text(ExchangeError, lambda: x.__dlpack__(stream=1)) == (
        "__dlpack__(Float32Tensor[3]): stream is 1, but the host does not have "
        "streams. "
        "Use stream=None."
    )
    assert text(ExchangeError, lambda: x.__dlpack__(dl_device=(2, 0))) == (
        "__dlpack__(Float32Tensor[3]): the elements are on device (1, 0), not (2, 0). "
        "Move them with to(device)."
    )
    assert text(OptionError, lambda: x.__dlpack__(max_version=1)) == (
        "__dlpack__(Float32Tensor[3]): max_version is 1. Use (1, 0), or None."
    )
    fields = np.zeros(4, [("a", "i1"), ("b", "f4")])["b"]
    assert text(ExchangeError, lambda: md.from_numpy(fields).__dlpack__()) == (
        "__dlpack__(Float32Tensor[4]): DLPack cannot represent float32 with strides "
        "(5,). Use copy=True."
    )
    assert np.from_dlpack(md.from_numpy(fields), copy=True).tolist() == [0.0] * 4


def test_dlpack_of_a_grid() -> None:
    q = quant.QInt8Tensor([1], scale=0.5)
    assert text(ExchangeError, lambda: np.from_dlpack(q)) == (
        "QInt8Tensor[1](scale=0.5, zero_point=0, range=-64..63.5) has a grid, which "
        "DLPack cannot represent. Export x.codes or quant.dequantize(x)."
    )
    assert np.from_dlpack(q.codes).tolist() == [1]


def test_an_export_that_numpy_cannot_read() -> None:
    class Far(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("in the memory of a GPU.")

    assert text(ExchangeError, lambda: md.from_dlpack(Far(md.asarray([1])))) == (
        "from_dlpack(Far): the memory of the array cannot be shared: in the memory of "
        "a GPU."
    )


def test_an_export_outlives_its_tensor() -> None:
    for dtype in (md.float32, md.bfloat16):
        kept = interop.import_array(Foreign(md.ones((1000,), dtype=dtype)))
        assert kept.tolist() == [1.0] * 1000
