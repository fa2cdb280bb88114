"""CUDA tensors and arrays of CuPy share memory, both ways, and order their streams."""

import gc
from typing import Any

import numpy as np
import pytest
from support import cupy_double, rendered_device

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import ExchangeError, OptionError
from mdtensor.kernels.cuda import driver

cuda: Any = rendered_device.chosen()
pytestmark = pytest.mark.skipif(
    rendered_device.name() != "double" or bool(rendered_device.missing(cuda)),
    reason="needs g++, and MDTENSOR_TEST_DEVICE=double",
)
cupy: Any = driver.cupy() if rendered_device.name() == "double" else None
TYPES = [kind.dtype for kind in md.leaves()[:15]]


def numbers(*shape: int) -> Any:
    return md.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_there_and_back_without_a_copy(dtype: Any) -> None:
    x = md.astype(numbers(2, 3), dtype).to(cuda)
    for layout in (x, x.T, x[:, ::2]):
        back = md.from_dlpack(layout)
        assert back is layout
        # As a stranger, which has the protocol only.
        stranger = Stranger(layout)
        back = md.from_dlpack(stranger)
        assert type(back) is type(x) and back.tolist() == layout.tolist()
        assert back.buffer.address == layout.buffer.address
        assert back.buffer.strides == layout.buffer.strides


class Stranger:
    """An array with DLPack alone."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def test_an_array_of_cupy_reads_and_writes_the_tensor() -> None:
    x = numbers(2, 3).to(cuda)
    array = cupy.from_dlpack(x)
    assert int(array.data.ptr) == x.buffer.address
    y = md.asarray(array)
    y[0] = 7
    assert x.tolist() == [[7, 7, 7], [3, 4, 5]]
    # What is exported stays alive with the importer.
    del x, array
    assert md.sum(y).item() == 33


def test_the_cuda_array_interface() -> None:
    x = numbers(2, 3).to(cuda)[:, 1:]
    fields = x.__cuda_array_interface__
    assert fields["shape"] == (2, 2) and fields["strides"] == (12, 4)
    assert fields["typestr"] == "<f4" and fields["version"] == 3
    assert fields["data"] == (x.buffer.address, False)
    assert fields["stream"] == cuda.main_stream().raw.ptr

    class OnlyInterface:
        __cuda_array_interface__ = fields

    y = md.asarray(OnlyInterface())
    assert type(y) is md.CudaFloat32Tensor and y.tolist() == [[1, 2], [4, 5]]
    assert y.buffer.address == x.buffer.address
    frozen = md.broadcast_to(x[0], (3, 2)).__cuda_array_interface__
    assert frozen["data"][1] is True


def test_who_does_not_have_the_interface() -> None:
    codes = quant.QInt8Tensor([1, 2], scale=0.5).to(cuda)
    for x in (numbers(2), numbers(2).to(cuda).astype(md.bfloat16), codes):
        assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(ExchangeError, match="has a grid"):
        codes.__dlpack__()


def test_what_cannot_be_shared_says_so() -> None:
    x = numbers(2).to(cuda)
    frozen = md.broadcast_to(x, (3, 2))
    with pytest.raises(ExchangeError, match=r"read-only. Use copy=True"):
        frozen.__dlpack__()
    capsule = frozen.__dlpack__(copy=True, max_version=(1, 0))
    assert "dltensor" in repr(capsule)
    assert np.from_dlpack(Host(x)).tolist() == [0, 1]


class Host(Stranger):
    """Asks for a copy on the host, as array libraries do with `device="cpu"`."""

    def __dlpack__(self, **options: Any) -> Any:
        given = {"max_version": options.get("max_version"), "dl_device": (1, 0)}
        return self.x.__dlpack__(**given)

    def __dlpack_device__(self) -> Any:
        return 1, 0


def test_a_consumer_waits_for_the_stream_that_wrote() -> None:
    stream = cuda.stream()
    with stream:
        y = numbers(3).to(cuda) + 1
    cupy_double.CALLS.clear()
    y.__dlpack__(stream=1)
    (asked,) = [call for call in cupy_double.CALLS if call[0] == "dlpack"]
    assert asked == ("dlpack", 1, stream.raw.ptr)


def test_memory_that_a_consumer_reads_is_not_given_to_others_first() -> None:
    theirs = cupy.cuda.Stream(non_blocking=True)
    y = numbers(3).to(cuda) + 1
    home = y.buffer.memory.home.raw.ptr
    y.__dlpack__(stream=theirs.ptr)
    cuda.synchronize()
    cupy_double.CALLS.clear()
    del y
    gc.collect()
    # The consumer may have launched what nobody counts.
    assert ("wait", home, theirs.ptr) in cupy_double.CALLS


def test_streams_are_shared_with_cupy() -> None:
    theirs = cupy.cuda.Stream(non_blocking=True)
    with theirs:
        x = numbers(3).to(cuda) + 1
        assert cuda.main_stream().raw.ptr == theirs.ptr
    assert x.buffer.memory.home.raw.ptr == theirs.ptr
    mine = cuda.stream()
    with mine:
        assert cupy.cuda.get_current_stream().ptr == mine.raw.ptr
    assert cupy.cuda.get_current_stream().ptr == 0
    assert cuda.share_stream(mine) is mine
    assert mine.__cuda_stream__() == (0, mine.raw.ptr)
    assert x.tolist() == [1, 2, 3]


def test_streams_of_pytorch() -> None:
    class Theirs:
        cuda_stream = 0x77

    found = cuda.share_stream(Theirs())
    assert found.raw.ptr == 0x77 and found.owner is not None
    with found:
        x = numbers(2).to(cuda) * 2
    assert x.tolist() == [0, 2]
    with pytest.raises(OptionError, match="'main' is not a stream of CUDA"):
        cuda.share_stream("main")


def test_an_array_on_a_second_gpu_is_refused() -> None:
    class Second(Stranger):
        def __dlpack_device__(self) -> Any:
            return 2, 1

    with pytest.raises(ExchangeError, match=r"DLPack's device \(2, 1\)"):
        md.from_dlpack(Second(numbers(1)))
