"""A GPU as a device: allocation, copies, launches and exchange."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mdtensor import ledger
from mdtensor.errors import DeviceError, OptionError, shown
from mdtensor.gpu import toolkit
from mdtensor.gpu.memory import Count, CudaBuffer, CudaMemory
from mdtensor.gpu.streams import CudaStream, failure, reporting
from mdtensor.rendered import register
from mdtensor.rendered.queues import RenderedDevice

#: Streams of DLPack: the default stream, and none that is to be ordered.
LEGACY, NO_ORDER = 1, -1
#: The first architecture with `mma.sync.m16n8k32`.
TENSOR_CORES = 80


# What is not memory or streams is the emulated device's, too (decision 0075).
class Cuda(RenderedDevice):
    """The first GPU of this machine, if there is one.

    CuPy is imported, and the methods are registered, when the device is named or gets
    its first buffer; until then `missing` looks only whether there is a driver.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([1.0]).to("cuda")  # doctest: +SKIP
        >>> x + x  # doctest: +SKIP
        CudaFloat32Tensor[1](device='cuda:0')
    """

    name = "cuda:0"
    dlpack = (2, 0)
    shares_memory = True

    def __init__(self) -> None:
        super().__init__()
        self._count = Count()
        self._gpu: Any = None
        self._main: CudaStream | None = None
        self._streams: WeakValueDictionary[int, CudaStream] = WeakValueDictionary()

    @cached_property
    def missing(self) -> str:
        return str(toolkit.driver.missing())

    # Methods take 200 ms, which a program without CUDA does not pay.
    def prepare(self) -> None:
        with suppress(DeviceError):
            _ = self.gpu

    @property
    def gpu(self) -> Any:
        """Return the GPU; the first call opens it and registers the methods.

        Raises:
            DeviceError: CUDA cannot be used on this machine.
        """
        # Without the lock, which every launch would take.
        if self._gpu is not None:
            return self._gpu
        with self._lock:
            if self._gpu is None:
                if self.missing:
                    problem = f"{self} cannot be used: {self.missing}"
                    raise DeviceError(problem, "Use cpu")
                with reporting("opening the GPU"):
                    opened = toolkit.gpu.Gpu()
                self._main = CudaStream(self, opened.stream())
                register(self)
                # Last: other threads see a device with methods, or wait for the lock.
                self._gpu = opened
        return self._gpu

    @property
    def has_tensor_cores(self) -> bool:  # type: ignore[override]
        """Return whether the GPU multiplies 16 x 8 sums of codes: sm_80 and later."""
        return bool(self.gpu.arch >= TENSOR_CORES)

    @property
    def multiplies_floats(self) -> bool:  # type: ignore[override]
        """Return whether cuBLAS is there."""
        # Methods render while they are registered, before the GPU is open.
        return self._gpu is not None and self._gpu.blas is not None

    def render(self, loop: Any) -> Any:
        """Return the kernel of a loop; products of floats are cuBLAS's, if it is there.

        Raises:
            UnsupportedLoopError: CUDA C++ lacks something.
        """
        make = toolkit.blas.product if self.multiplies_floats else toolkit.cuda.render
        return make(loop)

    # --- memory -----------------------------------------------------------------------

    @property
    def free_bytes(self) -> int | None:
        if self.missing:
            return None
        gpu = self.gpu
        with gpu.device:
            free, _ = gpu.cuda.runtime.memGetInfo()
        return int(free) + int(gpu.pool.free_bytes())

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> CudaBuffer:
        gpu, stream = self.gpu, self.stream_now()
        size = prod(shape) * storage.itemsize
        # Without a block, whose entry takes as long as the allocation.
        try:
            block = gpu.allocate(size, stream.raw)
        except Exception as error:
            doing = f"allocating {size:,} bytes next to {self._count.used:,} in use"
            raise failure(doing, error) from error
        memory = CudaMemory(size, block.ptr, block, stream, self._count)
        made = CudaBuffer(memory, np.ndarray(shape, storage, memory.span))
        made.address = memory.address
        return made

    def from_host(self, array: npt.NDArray[Any]) -> CudaBuffer:
        made = self.alloc(array.shape, array.dtype)
        ledger.copied(self, ledger.TO_DEVICE, array.nbytes)
        source = np.asarray(array, order="C")
        given = made.address, source.ctypes.data, source.nbytes
        with reporting("copying to the GPU"):
            self.gpu.copy(*given, toolkit.gpu.TO_DEVICE, made.memory.home.raw)
        made.memory.home.issued += 1
        return made

    def to_host(self, buffer: CudaBuffer) -> npt.NDArray[Any]:
        gpu, out = self.gpu, np.empty(buffer.shape, buffer.dtype)
        ledger.waited(self, "read")
        ledger.copied(self, ledger.TO_HOST, out.nbytes)
        with self._lock:
            stream = self._last_stream(buffer)
            source = buffer if buffer.is_contiguous else self._packed(buffer, stream)
            given = out.ctypes.data, source.address, out.nbytes
            with reporting("copying to the host"):
                gpu.copy(*given, toolkit.gpu.TO_HOST, stream.raw)
        stream.finish()
        return out

    def _last_stream(self, buffer: CudaBuffer) -> CudaStream:
        """Return the stream whose launch has written a buffer last."""
        writer: Any = buffer.memory.uses.writer
        return buffer.memory.home if writer is None else writer[0]

    def _packed(self, buffer: CudaBuffer, stream: CudaStream) -> CudaBuffer:
        """Return a copy in row-major order, made in a stream."""
        from mdtensor.rendered.binding import copy_kernel

        with stream:
            made = self.alloc(buffer.shape, buffer.dtype)
        self.enqueue(stream, copy_kernel(buffer.dtype.name), (buffer, made))
        return made

    def memory_stats(self) -> ledger.MemoryStats:
        """Return the bytes in buffers, in the pool, and in buffers at most."""
        pooled = 0 if self._gpu is None else int(self._gpu.pool.free_bytes())
        return ledger.MemoryStats(self._count.used, pooled, self._count.peak)

    # --- launches ---------------------------------------------------------------------

    def issue(self, stream: CudaStream, kernel: Any, launch: Any) -> None:
        operands = [x for x in launch.operands if isinstance(x, CudaBuffer)]
        fresh = [x.memory for x in operands if stream not in x.memory.uses.streams]
        # Launches of the streams that had the blocks before may still run.
        for home in {memory.home for memory in fresh} - {stream}:
            stream.follow(home)
        addresses = [getattr(x, "address", 0) for x in launch.operands]
        try:
            self.gpu.launch(kernel, launch, addresses, stream.raw)
        except Exception as error:
            raise self.failure(kernel, launch.operands, error) from error
        stream.issued += 1

    # --- capture ----------------------------------------------------------------------

    def capturing_stream(self) -> CudaStream:
        return CudaStream(self, self.gpu.stream())

    def own_memory(self) -> AbstractContextManager[None]:
        pool: AbstractContextManager[None] = self.gpu.own_pool()
        return pool

    def begin_capture(self, stream: CudaStream) -> None:
        with reporting("beginning the capture"):
            stream.raw.begin_capture()

    def end_capture(self, stream: CudaStream) -> Any:
        # A capture that has failed ends with an error of its own.
        with reporting("ending the capture"):
            return stream.raw.end_capture()

    def replay(self, stream: CudaStream, graph: Any, name: str) -> None:
        with reporting(f"replaying {name}"):
            graph.launch(stream.raw)
        stream.issued += 1

    # --- waiting ----------------------------------------------------------------------

    def synchronize(self) -> None:
        ledger.waited(self, "synchronize")
        if self._gpu is None:
            return
        streams = [(stream, stream.issued) for stream in self._known()]
        with reporting("waiting for the GPU"):
            self._gpu.device.synchronize()
        for stream, number in streams:
            stream.done = max(stream.done, number)

    # --- streams ----------------------------------------------------------------------

    def stream(self) -> CudaStream:
        raw = self.gpu.stream()
        return self._stream_of(raw.ptr, lambda: raw)

    def main_stream(self) -> CudaStream:
        """Return CuPy's current stream; our own outside of CuPy's `with` blocks."""
        current = self.gpu.cuda.get_current_stream()
        if current.ptr == 0 and self._main is not None:
            return self._main
        found = self._stream_of(current.ptr, lambda: current)
        found.is_shared = found is not self._main
        return found

    def share_stream(self, stream: Any) -> CudaStream:
        """Return the stream of another library as one of this device.

        Args:
            stream: of CuPy or PyTorch, or anything with `__cuda_stream__`.

        Raises:
            OptionError: it is not a stream of CUDA.
        """
        protocol = getattr(stream, "__cuda_stream__", None)
        handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", None))
        handle = protocol()[1] if protocol else handle
        if not isinstance(handle, int):
            fix = "Give a stream of CuPy or PyTorch"
            raise OptionError(f"{shown(stream)} is not a stream of CUDA", fix)
        found = self._foreign(handle)
        # The other library ends the stream with its object.
        found.owner = stream
        return found

    def _foreign(self, handle: int) -> CudaStream:
        found = self._stream_of(handle, lambda: self.gpu.external_stream(handle))
        found.is_shared = found is not self._main
        return found

    def _stream_of(self, handle: int, make: Callable[[], Any]) -> CudaStream:
        """Return the stream with a handle; for the default stream, our own."""
        main = self._main
        # The default stream, 0, would wait for all others.
        if main is not None and handle in (0, main.raw.ptr):
            return main
        found = self._streams.get(handle)
        if found is None:
            found = self._streams.setdefault(handle, CudaStream(self, make()))
        return found

    def _known(self) -> list[CudaStream]:
        return [*filter(None, [self._main]), *self._streams.values()]

    # --- exchange ---------------------------------------------------------------------

    def to_array(self, buffer: CudaBuffer, dtype: np.dtype[Any]) -> Any:
        """Return a CuPy array of the elements as another type of the same size.

        CuPy must be used in the stream that has written them.
        """
        place = buffer.memory, buffer.address
        return toolkit.exchange.array(
            self.gpu, *place, buffer.shape, buffer.strides, dtype
        )

    def export_dlpack(
        self, buffer: CudaBuffer, dtype: np.dtype[Any], options: dict[str, Any]
    ) -> Any:
        """Return the DLPack capsule of a buffer; the consumer's stream waits for it."""
        handle = options["stream"]
        # The consumer may let the memory go while its stream still reads it.
        if handle != NO_ORDER:
            buffer.memory.uses.streams.add(self._foreign(handle or LEGACY))
        with self._last_stream(buffer):
            return self.to_array(buffer, dtype).__dlpack__(**options)

    def import_array(self, source: Any) -> tuple[CudaBuffer, np.dtype[Any]]:
        """Return a buffer in the memory of an array of another library, and its type.

        Raises:
            BufferError, RuntimeError, TypeError: the memory cannot be shared.
        """
        stream = self.stream_now()
        array = toolkit.exchange.imported(self.gpu, source, stream.raw)
        # What the other library has launched is ordered before this.
        stream.issued += 1
        low, size = toolkit.exchange.extent(array)
        memory = CudaMemory(size, low, array, stream, Count())
        at = int(array.data.ptr) - low
        given = array.shape, array.dtype, memory.span, at, array.strides
        return CudaBuffer(memory, np.ndarray(*given)), array.dtype

    def array_interface(self, buffer: CudaBuffer) -> dict[str, Any]:
        """Return the CUDA array interface of a buffer, version 3."""
        return {
            "shape": buffer.shape,
            "strides": None if buffer.is_contiguous else buffer.strides,
            "typestr": buffer.dtype.str,
            "data": (buffer.address, not buffer.is_writable),
            "version": 3,
            "stream": int(self._last_stream(buffer).raw.ptr),
        }
