"""Devices: memory, kernel launches and waiting, independent of element types.

The CPU runs a launch at once. Other devices queue launches: `synchronize` waits for all
of them, an event for the launches before it, and `to_host` for the launches that the
buffer depends on. `mdtensor.conformance` tests a device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import ContextVar
from importlib import import_module
from time import perf_counter_ns
from typing import Any, Final, Self, cast

import numpy as np
import numpy.typing as npt

from mdtensor import host_memory
from mdtensor.errors import (
    DeviceError,
    MdtensorError,
    OptionError,
    RegistrationError,
    describe,
    shown,
)
from mdtensor.reloading import Origin, is_reload, origin_of

_REGISTRY: dict[str, Device] = {}
_ORIGINS: dict[str, Origin] = {}
#: Devices that are imported when they are first named, and that `devices` does not
#: list: they compute nothing themselves.
_LATER = {"lazy": ("mdtensor.graph.lazy", "LAZY")}
#: Devices of ours that their modules register, imported when they are first named.
_MODULES = {"emucuda": "mdtensor.emucuda"}

#: The entry point group of packages that register devices.
PLUGINS = "mdtensor.devices"
#: The streams of the `with` blocks around the caller, innermost last.
_ENTERED: ContextVar[tuple[Stream, ...]] = ContextVar("streams", default=())


# A device does not list operations, or each new operation would touch every device
# (decision 0015).
class Device(ABC):
    """A place for buffers and kernels; register one with `register_device`.

    A buffer has `shape`, `dtype` and `size`, like a NumPy array. It is freed with the
    last tensor that holds it, so devices do not need a method for that. A launch holds
    its arguments until it has run.

    Example:
        >>> total = cpu.from_host(np.asarray([1.0, 2.0]))
        >>> cpu.launch(np.add, total, total, total)
        >>> cpu.to_host(total).tolist()
        [2.0, 4.0]
    """

    name: str

    @property
    def missing(self) -> str:
        """Return the reason why the device cannot be used here; empty if it can."""
        return ""

    @property
    def free_bytes(self) -> int | None:
        """Return the bytes that a program can still allocate; None if not known.

        Without them, `device="auto"` does not choose the device.
        """
        return None

    #: Device type and number in DLPack; type 12 is an extension device.
    dlpack: tuple[int, int] = (12, 0)

    @abstractmethod
    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        """Return a new buffer with undefined contents."""

    @abstractmethod
    def from_host(self, array: npt.NDArray[Any]) -> Any:
        """Return a buffer with the present contents of a host array."""

    @abstractmethod
    def to_host(self, buffer: Any) -> npt.NDArray[Any]:
        """Return a host array with the contents of a buffer, after its launches."""

    @abstractmethod
    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Run `kernel(*arguments)`, now or after the earlier launches.

        The current stream determines the order. If the kernel raises, raise `failure`,
        here or from the call that waits for the launch.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until every earlier launch is done, in all streams."""

    def stream(self) -> Stream:
        """Return a new stream; on a device with one queue, a view of that queue."""
        return Stream(self)

    def current_stream(self) -> Stream | None:
        """Return the stream of the innermost `with stream:` block; None outside."""
        # Blocks of streams of other devices may be nested inside.
        mine = [stream for stream in _ENTERED.get() if stream.device is self]
        return mine[-1] if mine else None

    def copy(self, buffer: Any) -> Any:
        """Return a new buffer with the contents of `buffer`."""
        # On the host, `to_host` shares memory; K keeps the memory order.
        return self.from_host(self.to_host(buffer).copy("K"))

    def capture(self, function: Callable[..., Any], *examples: Any) -> Any:
        """Return a function that replays the launches of a call as one graph.

        A replay is one launch of the host. The graph has memory of its own, and returns
        copies of its results.

        Args:
            function: gets tensors of this device and returns one, or a tuple. It must
                not wait: no read, no check of elements.
            examples: tensors of this device; later calls take their types and shapes.

        Raises:
            DeviceError: the device captures nothing, or the function waits or copies.
            OptionError: there is no example, or one is not on this device.

        Source: CUDA C++ Programming Guide, "CUDA Graphs".
        """
        problem = f"{self} does not capture launches"
        raise DeviceError(problem, "Call the function, or use md.compile")

    def failure(
        self, kernel: Callable[..., Any], arguments: tuple[Any, ...], cause: Exception
    ) -> MdtensorError:
        """Return the error to raise for `cause`, which a kernel raised."""
        # Our own errors already name the call and a fix.
        if isinstance(cause, MdtensorError):
            return cause
        name = getattr(kernel, "__name__", type(kernel).__name__)
        problem = f"the kernel failed on {self.name} with {type(cause).__name__}"
        failed = DeviceError(problem, "", describe(name, *arguments))
        # Set here, because the error may be raised later and in another place.
        failed.__cause__ = cause
        return failed

    def tensor_type(self, dtype: Any) -> Any:
        """Return the tensor type of an element type; None if it must be declared."""
        return None

    def adopt(self, tensor: Any) -> Any:
        """Return a host tensor as one of this device that shares its memory, or None.

        The default is None: `to` copies the elements by `from_host`.
        """
        return None

    #: Whether other libraries can share its memory. Then it has the methods
    #: `export_dlpack`, `import_array` and `array_interface` (`mdtensor.gpu.device`).
    shares_memory = False

    def prepare(self) -> None:
        """Do what the first use needs; `device` calls this when the device is named."""
        return None

    #: Takes an operation and the types of the arguments, and returns the function that
    #: runs. Without it the methods of the operation are looked up.
    implementation: Callable[..., Callable[..., Any]] | None = None

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return device, (self.name,)


class Stream:
    """A queue of launches that run in order; events order the launches of two streams.

        with device.stream() as stream:  # launches of the device go there
            y = x + x
        done = stream.record()           # done once y is computed
        other.wait(done)                 # later launches of `other` come after it

    This class is for devices with one queue. Devices with several queues derive from
    it.

    Example:
        >>> with cpu.stream() as stream:
        ...     cpu.current_stream() is stream
        True
        >>> stream.record().wait()

    Source: CUDA C++ Programming Guide, "Streams" and "Events".
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        """Run `kernel(*arguments)` after the earlier launches of this stream."""
        self.device.launch(kernel, *arguments)

    def record(self) -> Event:
        """Return an event that is done once every launch so far is done."""
        return Event(self)

    def wait(self, event: Event) -> None:
        """Run later launches after `event`, without blocking the caller if possible.

        Raises:
            OptionError: `event` is not an event.
        """
        if not isinstance(event, Event):
            raise OptionError(f"event is {shown(event)}", "Use stream.record()")
        # On one device with one queue, launches are in order already.
        if event.stream.device is not self.device:
            event.wait()

    def synchronize(self) -> None:
        """Wait until every launch of this stream is done."""
        self.device.synchronize()

    def __enter__(self) -> Self:
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _ENTERED.set(_ENTERED.get()[:-1])


class Event:
    """A point in a stream, made by `Stream.record`.

    Example:
        >>> stream = cpu.stream()
        >>> start, end = stream.record(), stream.record()
        >>> end.is_done, end.milliseconds_since(start) >= 0
        (True, True)
    """

    #: When it was reached, in nanoseconds of the host; None before, and on devices
    #: that measure time themselves, or not at all.
    reached: int | None = None

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    @property
    def is_done(self) -> bool:
        """Return whether the launches before the event have run, without waiting.

        Raises:
            DeviceError: the device does not say.
        """
        problem = f"events of {self.stream.device} do not say whether they are done"
        raise DeviceError(problem, "Use wait()")

    def milliseconds_since(self, earlier: Event) -> float:
        """Return the time between two events that are done, as the device measures it.

        Raises:
            OptionError: `earlier` is not an event of this device.
            DeviceError: one of both is not done, or the device does not measure time.
        """
        device = self.stream.device
        if not isinstance(earlier, Event) or earlier.stream.device is not device:
            shown_ = earlier.stream.device if isinstance(earlier, Event) else "no event"
            problem = (
                f"earlier is {shown(earlier)} ({shown_}), not an event of {device}"
            )
            raise OptionError(problem, "Use stream.record()", "milliseconds_since")
        for name, event in (("this event", self), ("earlier", earlier)):
            if not event.is_done:
                problem = f"{device}: {name} is not done, so its time is not known"
                raise DeviceError(problem, "Use wait() first", "milliseconds_since")
        return self._milliseconds_since(earlier)

    def _milliseconds_since(self, earlier: Any) -> float:
        """Return the time between two events of this device that are done."""
        if self.reached is None or earlier.reached is None:
            problem = f"events of {self.stream.device} do not measure time"
            raise DeviceError(problem, "Use time.perf_counter()")
        return float(self.reached - earlier.reached) * 1e-6

    def wait(self) -> None:
        """Wait until the launches before the event are done."""
        self.stream.synchronize()


class _CpuEvent(Event):
    """What was launched before it has run."""

    is_done = True

    def __init__(self, stream: Stream) -> None:
        super().__init__(stream)
        self.reached = perf_counter_ns()


class _CpuStream(Stream):
    def record(self) -> Event:
        return _CpuEvent(self)


class _Cpu(Device):
    name = "cpu"
    dlpack = (1, 0)

    @property
    def free_bytes(self) -> int | None:
        return host_memory.free_bytes()

    def alloc(self, shape: tuple[int, ...], storage: np.dtype[Any]) -> Any:
        return np.empty(shape, storage)

    def from_host(self, array: npt.NDArray[Any]) -> Any:
        return array

    def to_host(self, buffer: Any) -> npt.NDArray[Any]:
        return np.asarray(buffer)

    def launch(self, kernel: Callable[..., Any], *arguments: Any) -> None:
        try:
            kernel(*arguments)
        except Exception as error:
            failed = self.failure(kernel, arguments, error)
            raise failed from failed.__cause__

    def synchronize(self) -> None:
        return None

    def stream(self) -> Stream:
        return _CpuStream(self)


def register_device(new: Device) -> Device:
    """Register `new` under its name and return it.

    Raises:
        RegistrationError: the name is taken, or `new` is not a device.
    """
    if not isinstance(new, Device):
        raise RegistrationError(f"{shown(new)} is not a device", "Derive from Device")
    origin = origin_of(type(new).__module__)
    known = _REGISTRY.get(new.name)
    is_again = (
        known is not None
        and type(known).__qualname__ == type(new).__qualname__
        and is_reload(_ORIGINS[new.name], origin)
    )
    is_ours = _MODULES.get(new.name, origin.module) == origin.module
    if new.name in _LATER or not is_ours or (known is not None and not is_again):
        problem = f"a device named {new.name} exists already"
        raise RegistrationError(problem, "Use it, or choose another name")
    _REGISTRY[new.name], _ORIGINS[new.name] = new, origin
    return new


def register_later(name: str, module: str, attribute: str) -> None:
    """Let `device(name)` import `module` at first use; `devices()` does not list it.

    For devices that hold tensors of another kind and compute nothing themselves, as
    `lazy`.

    Raises:
        RegistrationError: the name is taken.
    """
    place = module, attribute
    if name in _REGISTRY or _LATER.setdefault(name, place) != place:
        problem = f"a device named {name} exists already"
        raise RegistrationError(problem, "Choose another name")


def devices() -> tuple[Device, ...]:
    """Return all registered devices, also the ones that cannot be used here."""
    return tuple(_REGISTRY.values())


def device(name: str | Device) -> Device:
    """Return the device called `name`; `cuda` is short for `cuda:0`.

    If the device is not registered, an installed package may provide it: the entry
    point `name` in the group `mdtensor.devices` is the module that registers it.

    Raises:
        DeviceError: there is no such device, or its module cannot be imported.

    Example:
        >>> device("cpu")
        cpu

    Source: Python Packaging User Guide, "Entry points specification".
    """
    if isinstance(name, Device):
        return name
    found = None
    if isinstance(name, str):
        found = _look_up(name) or (_load_plugin(name) and _look_up(name))
    if not found:
        known = ", ".join(_REGISTRY)
        fix = f"Registered devices: {known}"
        if isinstance(name, str) and name.rstrip("0123456789") in _ELEMENTS:
            fix += f"; for another element type use astype(x, {name})"
        raise DeviceError(f"no device {shown(name)}", fix)
    found.prepare()
    return found


#: The names of element types, without their bits: other libraries have one function
#: for devices and for types.
_ELEMENTS = frozenset({"bool", "int", "uint", "float", "bfloat", "complex"})


def _look_up(name: str) -> Device | None:
    if name in _LATER:
        module, attribute = _LATER[name]
        return cast(Device, getattr(import_module(module), attribute))
    if name in _MODULES and name not in _REGISTRY:
        import_module(_MODULES[name])
    return _REGISTRY.get(name, _REGISTRY.get(f"{name}:0"))


def _load_plugin(name: str) -> bool:
    """Import the modules of installed packages that register the device `name`."""
    from importlib.metadata import entry_points  # 20 ms that few programs need

    plugins = entry_points(group=PLUGINS, name=name.partition(":")[0])
    for plugin in plugins:
        try:
            plugin.load()
        except Exception as error:
            problem = f"{plugin.value}, which registers {name}, fails to load"
            raise DeviceError(problem) from error
    return bool(plugins)


cpu: Final = register_device(_Cpu())
