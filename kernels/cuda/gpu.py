"""One GPU through CuPy: memory, copies, streams and launches of rendered kernels.

CuPy's launcher checks neither count nor types of arguments, and passes a Python float
as 8 bytes. So launches go to the driver's own function, with arguments that
`Kernel.bind` has checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from threading import Lock, local
from typing import Any

from mdtensor.kernels.cuda import compiler, driver, nvrtc
from mdtensor.kernels.cuda.blas import Blas
from mdtensor.kernels.loops.arguments import packed
from mdtensor.kernels.loops.kernel import Kernel, Launch

#: Kinds of copies, as cudaMemcpyKind counts them.
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3
#: The kind of memory that a copy reads after it has returned: pinned.
PINNED = 1


class Gpu:
    """A GPU by its number; the context of CUDA is made here.

    Raises:
        NvrtcError: NVRTC is not installed.
        Exception: CuPy finds no driver, or no such GPU.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.cuda: Any = driver.cupy().cuda
        self.lib = nvrtc.library(driver.major_version())
        self.device = self.cuda.Device(number)
        self.arch = int(self.device.compute_capability)
        #: Blocks of freed buffers, for later ones of the same stream.
        self.pool = self.cuda.MemoryPool()
        self._own_pool: ContextVar[Any] = ContextVar("pool", default=None)
        self._functions: dict[str, Any] = {}
        self._lock, self._threads = Lock(), local()

    @cached_property
    def blas(self) -> Blas | None:
        """Return cuBLAS; None if it is not installed."""
        with self.device:
            # CuPy's own errors, and those of libraries that it loads.
            try:
                return Blas()
            except Exception:
                return None

    def stream(self) -> Any:
        """Return a new stream that does not wait for the default stream."""
        with self.device:
            return self.cuda.Stream(non_blocking=True)

    def external_stream(self, handle: int) -> Any:
        """Return the stream of another library."""
        return self.cuda.ExternalStream(handle, self.number)

    def milliseconds(self, start: Any, end: Any) -> float:
        """Return the time on the GPU between two events that are done."""
        return float(self.cuda.get_elapsed_time(start, end))

    def allocate(self, size: int, stream: Any) -> Any:
        """Return memory with `ptr`; a later launch of the stream may use it at once."""
        with self.device, stream:
            return (self._own_pool.get() or self.pool).malloc(size)

    @contextmanager
    def own_pool(self) -> Iterator[None]:
        """Let the memory of a block come from a pool of its own.

        The pool lives as long as its memory: what replays launches must hold that.
        """
        token = self._own_pool.set(self.cuda.MemoryPool())
        try:
            yield
        finally:
            self._own_pool.reset(token)

    def copy(self, target: int, source: int, size: int, kind: int, stream: Any) -> None:
        """Copy bytes between addresses, behind the launches of a stream.

        A copy from the host has read its source when this returns; a copy to the host
        is done when the stream is.
        """
        if not size:
            return
        self.cuda.runtime.memcpyAsync(target, source, size, kind, stream.ptr)
        if kind == TO_DEVICE and self._is_pinned(source):
            stream.synchronize()

    def _is_pinned(self, address: int) -> bool:
        return bool(self.cuda.runtime.pointerGetAttributes(address).type == PINNED)

    def launch(
        self, kernel: Kernel, launch: Launch, addresses: Sequence[int], stream: Any
    ) -> None:
        """Put a launch into a stream; the first one of a kernel compiles its text.

        Raises:
            NvrtcError: the text does not compile.
            Exception: the driver refuses the launch, or an earlier one has failed.
        """
        # A grid without blocks is an error for the driver.
        if not launch.grid:
            return
        self._enter_context()
        if launch.product is not None:
            assert self.blas is not None
            self.blas.run(kernel, launch.product, addresses, stream)
            return
        function = self._function(kernel)
        table, alive = packed(launch, addresses)
        self.cuda.driver.launchKernel(
            *(function.ptr, launch.grid, 1, 1, launch.block, 1, 1),
            *(0, stream.ptr, ctypes.addressof(table), 0),
        )
        # The driver has copied the arguments; until here they had to stay.
        del alive

    def _enter_context(self) -> None:
        """Make the context of the GPU that of this thread.

        Functions of the runtime do that by themselves, those of the driver raise.
        """
        if not hasattr(self._threads, "has_context"):
            with self.device:
                self.cuda.runtime.memGetInfo()
            self._threads.has_context = True

    def _function(self, kernel: Kernel) -> Any:
        found = self._functions.get(kernel.name)
        if found is None:
            code = compiler.cubin(kernel, self.arch, self.lib)
            with self._lock, self.device:
                module = self.cuda.function.Module()
                module.load(code)
                # A function keeps its module.
                found = self._functions[kernel.name] = module.get_function(kernel.name)
        return found
