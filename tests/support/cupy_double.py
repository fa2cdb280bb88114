"""A double of CuPy's small surface that mdtensor uses: texts are compiled by g++.

It runs all of mdtensor's own code for GPUs, and nothing of NVIDIA's: launches run on
the CPU, and memory is the host's. What it keeps from a GPU: launches and copies run
when their stream is waited for (`stream_double.py`), fresh memory is poisoned, a grid
without blocks is an error, a thread without a context cannot launch, errors of a launch
come out of a later wait, and a capture takes launches only.
"""

import ctypes
import re
import tempfile
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from support import cublas_double
from support.stream_double import CALLS, Broken, Device, Stream, refuse_capture, stack

from mdtensor.kernels.cuda import driver, nvrtc
from mdtensor.kernels.emulated import compiler as gpp
from mdtensor.kernels.emulated.compiler import FAILURES, HEADER

POISON = 0xFF
_local = threading.local()
#: Memory of queued tasks: of the host, which knows no streams, so none is given back.
_kept: list[Any] = []


# --- NVRTC ----------------------------------------------------------------------------


#: The bytes of each argument, which a driver knows of a kernel.
SIZES = """
template <typename... A> static void mdt_sizes(void (*)(A...), int* out) {{
  int i = 0;
  ((out[i++] = sizeof(A)), ...);
}}
extern "C" void {name}_sizes(int* out) {{ mdt_sizes({name}, out); }}
"""
#: By the address of a function: the bytes of its arguments.
ARGUMENTS: dict[int, list[int]] = {}


def compile_text(lib: Any, text: str, options: Any) -> tuple[bytes, str]:
    """g++ instead of NVRTC: a library instead of a CUBIN."""
    bounds = r"(?:__launch_bounds__\([^)]*\)\s+)?"
    (name,) = re.findall(rf"__global__ void\s+{bounds}(\w+)\(", text)
    barriers = str("__syncthreads" in text.partition(name)[2]).lower()
    entry = f"MDT_EMULATED({name}, {barriers})\n" + SIZES.format(name=name)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "kernel.so"
        try:
            gpp._compile("\n".join([HEADER, text, entry]), made)
        except gpp.EmulationError as error:
            raise nvrtc.NvrtcError(str(error)) from error
        return made.read_bytes(), ""


class Module:
    """A loaded library."""

    def load(self, code: bytes) -> None:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(code)
            file.flush()
            self.library = ctypes.CDLL(file.name)

    def get_function(self, name: str) -> Any:
        found = getattr(self.library, f"{name}_launch")
        address = ctypes.cast(found, ctypes.c_void_p).value
        sizes = (ctypes.c_int * 64)()
        getattr(self.library, f"{name}_sizes")(sizes)
        ARGUMENTS[address] = [n for n in sizes if n]  # type: ignore[index]
        return SimpleNamespace(ptr=address, module=self, kernel=name)


ENTRY = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_int, ctypes.c_ulonglong),
)


def launch_kernel(
    function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, *rest: int
) -> None:
    _shared, stream, arguments, _extra = rest
    assert gy == gz == by == bz == 1
    if not hasattr(_local, "has_context"):
        raise Broken("CUDA_ERROR_INVALID_CONTEXT: invalid device context")
    CALLS.append(("launch", gx, bx, stream))
    if gx < 1 or bx < 1:
        raise Broken("CUDA_ERROR_INVALID_VALUE: invalid argument")
    pointers = (ctypes.c_void_p * 64).from_address(arguments)
    values = [
        ctypes.create_string_buffer(ctypes.string_at(at, n), n)
        for at, n in zip(pointers, ARGUMENTS[function], strict=False)
    ]
    Stream.all[stream].add(lambda: _run(function, gx, bx, values, stream))


def _run(function: int, grid: int, block: int, values: list[Any], stream: int) -> None:
    places = [ctypes.addressof(value) for value in values]
    table = (ctypes.c_void_p * len(places))(*places)
    failed = ENTRY(function)(ctypes.addressof(table), grid, block, 0, 0)
    if failed:
        # As on a GPU, the launch itself has succeeded.
        Stream.all[stream].error = FAILURES[failed]


# --- memory ---------------------------------------------------------------------------


class MemoryPool:
    """Blocks of the host; freed ones go to later buffers of their size and stream."""

    def __init__(self) -> None:
        self.blocks: dict[Any, list[Any]] = {}

    def malloc(self, size: int) -> Any:
        stream = stack()[-1]
        key = size, stream.ptr
        free = self.blocks.get(key)
        if not free:
            block = np.full(size + 64, POISON, np.uint8)
            _kept.append(block)
        else:
            block = free.pop()
            # Launches of the stream that are queued may still use it.
            if stream.graph is None:
                stream.add(lambda: block.fill(POISON))
        return Block(self, key, block)

    def free_bytes(self) -> int:
        return sum(key[0] * len(found) for key, found in self.blocks.items())


class Block:
    def __init__(self, pool: Any, key: Any, block: Any) -> None:
        self.pool, self.key, self.block = pool, key, block
        self.ptr = block.ctypes.data

    def __del__(self) -> None:
        self.pool.blocks.setdefault(self.key, []).append(self.block)


def memcpy_async(target: int, source: int, size: int, kind: int, stream: int) -> None:
    CALLS.append(("copy", kind, size, stream))
    queue = Stream.all[stream]
    refuse_capture(queue)
    if kind == 1:
        # Memory that is not pinned is read before the call returns.
        data = ctypes.string_at(source, size)
        queue.add(lambda: ctypes.memmove(target, data, size))
    else:
        queue.add(lambda: ctypes.memmove(target, source, size))


# --- arrays ---------------------------------------------------------------------------


def _retagged(capsule: Any, kind: int) -> Any:
    """The capsule with another device in its structure."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    # DLTensor begins with the data; behind it is the device.
    for name, at in ((b"dltensor", 8), (b"dltensor_versioned", 40)):
        if is_valid(capsule, name):
            ctypes.c_int32.from_address(get(capsule, name) + at).value = kind
    return capsule


class ndarray:
    """An array of the double, over memory of the host."""

    def __init__(self, shape: Any, dtype: Any, memptr: Any, strides: Any) -> None:
        self.owner = memptr
        holder = SimpleNamespace(
            __array_interface__={
                "shape": tuple(shape),
                "typestr": np.dtype(dtype).str,
                "data": (memptr.ptr, False),
                "strides": tuple(strides),
                "version": 3,
            },
            owner=memptr,
        )
        self._set(np.asarray(holder))

    def _set(self, array: Any) -> None:
        self.host = array
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.data = SimpleNamespace(ptr=array.ctypes.data)

    @classmethod
    def of(cls, array: Any) -> Any:
        made = object.__new__(cls)
        made._set(array)
        return made

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        here = stack()[-1]
        CALLS.append(("dlpack", stream, here.ptr))
        if stream not in (None, -1, here.ptr):
            other = Stream.all.get(stream) or Stream(ptr=stream)
            other.wait_event(here.record())
        return _retagged(self.host.__dlpack__(max_version=max_version), 2)

    @property
    def __cuda_array_interface__(self) -> Any:
        return {**self.host.__array_interface__, "version": 3}


def from_dlpack(source: Any) -> Any:
    assert tuple(source.__dlpack_device__()) == (2, 0)
    capsule = source.__dlpack__(stream=stack()[-1].ptr, max_version=(1, 0))
    host = SimpleNamespace(
        __dlpack__=lambda **_: _retagged(capsule, 1),
        __dlpack_device__=lambda: (1, 0),
    )
    return ndarray.of(np.from_dlpack(host))


def asarray(source: Any) -> Any:
    fields = dict(source.__cuda_array_interface__)
    stream = fields.pop("stream", None)
    CALLS.append(("interface", stream))
    if stream is not None:
        Stream.all[stream].synchronize()
    holder = SimpleNamespace(__array_interface__=fields, owner=source)
    return ndarray.of(np.asarray(holder))


def _memory() -> tuple[int, int]:
    """The free and all bytes; a call gives the thread its context."""
    _local.has_context = True
    return 1 << 30, 2 << 30


def install(monkeypatch: Any) -> ModuleType:
    """Put the double in the place of CuPy, of NVRTC and of the driver."""
    made: Any = ModuleType("cupy")
    made.ndarray, made.from_dlpack, made.asarray = ndarray, from_dlpack, asarray
    made.cuda = SimpleNamespace(
        Device=Device,
        Stream=Stream,
        ExternalStream=lambda ptr, _: Stream.all.get(ptr) or Stream(ptr=ptr),
        MemoryPool=MemoryPool,
        MemoryPointer=lambda memory, at: SimpleNamespace(
            ptr=memory.ptr + at, owner=memory
        ),
        UnownedMemory=lambda ptr, size, owner, _: SimpleNamespace(ptr=ptr, owner=owner),
        get_current_stream=lambda: stack()[-1],
        get_elapsed_time=lambda start, end: (end.at - start.at) * 1e3,
        driver=SimpleNamespace(launchKernel=launch_kernel),
        function=SimpleNamespace(Module=Module),
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            memcpyAsync=memcpy_async,
            memGetInfo=_memory,
            pointerGetAttributes=lambda ptr: SimpleNamespace(type=0),
        ),
    )
    cublas_double.install(monkeypatch, Stream.all.__getitem__, CALLS)
    monkeypatch.setattr(driver, "driver_version", lambda: 13000)
    monkeypatch.setattr(driver, "cupy", lambda: made)
    monkeypatch.setattr(driver, "missing", lambda: "")
    monkeypatch.setattr(nvrtc, "library", lambda most=13: made)
    monkeypatch.setattr(nvrtc, "version", lambda lib: ("double", gpp._version(), SIZES))
    monkeypatch.setattr(nvrtc, "compile_text", compile_text)
    return made
