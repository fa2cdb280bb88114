"""The device: one queue, in which launches run in order."""

from math import prod
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

import mdtensor as md
from mdtensor import extend
from mdtensor.extend import ledger
from mdtensor_webgpu import adapter
from mdtensor_webgpu.buffers import Buffer, Memory, Usage, address_space, layout
from mdtensor_webgpu.launches import Pipelines, arguments

#: The element types that WGSL kernels read and write.
TYPES = ("bool", "int8", "int16", "int32", "uint8", "uint16", "uint32")
TYPES += ("float16", "float32")
LANGUAGE = "WGSL"


class WebGpu(md.Device):
    """A GPU through WebGPU; the first use requests it."""

    name = "webgpu"
    render = staticmethod(extend.render_wgsl)

    def __init__(self) -> None:
        self._lock = RLock()
        self._usage = Usage()
        self._pipelines: Pipelines | None = None

    @property
    def missing(self) -> str:
        return adapter.missing()

    @property
    def gpu(self) -> Any:
        """Return the device of wgpu.

        Raises:
            DeviceError: there is none.
        """
        problem = adapter.missing()
        if problem:
            raise md.DeviceError(f"webgpu cannot be used: {problem}", "Use cpu")
        return adapter.request()

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Buffer:
        gpu, size = self.gpu, prod(shape) * storage.itemsize
        most = address_space().size
        if size > most:
            problem = f"webgpu binds buffers of at most {most} bytes, not {size}"
            raise md.DeviceError(problem, "Use smaller tensors, or cpu")
        with self._lock:
            return Buffer(Memory(gpu, size, self._usage), layout(shape, storage))

    def from_host(self, array: npt.NDArray[Any]) -> Buffer:
        made = self.alloc(array.shape, array.dtype)
        ledger.copied(self, ledger.TO_DEVICE, array.nbytes)
        content = np.zeros(made.memory.size, np.uint8)
        content[: array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        with self._lock:
            self.gpu.queue.write_buffer(made.memory.handle, 0, content)
        return made

    def to_host(self, buffer: Buffer) -> npt.NDArray[Any]:
        ledger.waited(self, "read")
        ledger.copied(self, ledger.TO_HOST, buffer.size * buffer.dtype.itemsize)
        low, high = buffer.span()
        if low == high:
            return buffer.elements(b"")
        with self._lock:
            found = self.gpu.queue.read_buffer(buffer.memory.handle, low, high - low)
        return buffer.elements(found)

    def synchronize(self) -> None:
        ledger.waited(self, "synchronize")
        # Four bytes that are read behind all launches: wgpu 0.32 has no other wait.
        with self._lock:
            last = Memory(self.gpu, 4, self._usage)
            self.gpu.queue.read_buffer(last.handle, 0, 4)

    def memory_stats(self) -> ledger.MemoryStats:
        """Return the bytes in buffers, and in buffers at most; nothing is pooled."""
        return ledger.MemoryStats(self._usage.used, 0, self._usage.peak)

    def launch(self, kernel: Any, *given: Any) -> None:
        launch = extend.bind_launch(self, kernel, given, LANGUAGE)
        *inputs, out = launch.operands
        buffers = [x for x in inputs if isinstance(x, Buffer)]
        try:
            with self._lock:
                self._run(kernel, launch, buffers, out)
        except md.MdtensorError:
            raise
        except Exception as error:
            raise self.failure(kernel, launch.operands, error) from error

    def _run(
        self, kernel: Any, launch: Any, buffers: list[Buffer], out: Buffer
    ) -> None:
        """Put one dispatch into the queue."""
        gpu = self.gpu
        if self._pipelines is None:
            self._pipelines = Pipelines(gpu)
        pipeline = self._pipelines.pipeline(kernel, len(buffers))
        if not launch.grid:
            return
        encoder = gpu.create_command_encoder()
        handles = [self._readable(encoder, x, out) for x in buffers]
        words = gpu.create_buffer_with_data(data=arguments(launch), usage=STORAGE)
        group = gpu.create_bind_group(
            layout=self._pipelines.layout(len(buffers)),
            entries=[
                {"binding": at, "resource": {"buffer": x, "offset": 0, "size": x.size}}
                for at, x in enumerate([*handles, out.memory.handle, words])
            ],
        )
        step = encoder.begin_compute_pass()
        step.set_pipeline(pipeline)
        step.set_bind_group(0, group)
        step.dispatch_workgroups(min(launch.grid, adapter.most_groups()))
        step.end()
        gpu.queue.submit([encoder.finish()])

    def _readable(self, encoder: Any, x: Buffer, out: Buffer) -> Any:
        """Return what to read: a copy if the launch writes the same memory."""
        if x.memory is not out.memory:
            return x.memory.handle
        twin = Memory(self.gpu, x.memory.size, self._usage)
        ledger.copied(self, ledger.ON_DEVICE, twin.size)
        encoder.copy_buffer_to_buffer(x.memory.handle, 0, twin.handle, 0, twin.size)
        return twin.handle


#: `wgpu.BufferUsage.STORAGE`, known without the package.
STORAGE = 0x80
