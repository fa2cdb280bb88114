"""Tests that every device must pass; the author of a device runs them.

    class TestMine(DeviceConformance):    # pytest finds its methods; run() runs them
        device = mine
        add = staticmethod(my_add)        # a kernel: out = a + b, for float32 buffers
        raise_error = staticmethod(fail)  # optional: a kernel that raises
        peek = staticmethod(read_raw)     # optional: reads a buffer without waiting

A slow `add` helps: the slower it is, the more likely a missing wait is found.
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor import interop, tensor
from mdtensor.device import Device, cpu, device as find_device
from mdtensor.errors import DeviceError, type_and_shape
from mdtensor.generics.conversion import to

__all__ = ["DeviceConformance"]

Array = npt.NDArray[Any]
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (5,), (2, 3), (2, 0, 3), (1, 2, 1, 3))
#: Launches in a row: too many for a queue to finish before the test reads the buffer.
MANY = 20
THREADS = 4


class DeviceConformance:
    """Tests of one device; derive a class and set `device` and `add`.

    A failing test raises AssertionError with the expected and the actual value. If the
    device cannot be used on this machine, its tests are skipped.

    Example:
        >>> from mdtensor.device import cpu
        >>> class TestCpu(DeviceConformance):
        ...     device = cpu
        ...     add = staticmethod(np.add)
        >>> "test_reading_waits" in TestCpu().run()
        True

    Source: `pandas.tests.extension.base`, whose users derive in the same way.
    """

    device: Device
    add: Callable[[Any, Any, Any], Any]
    raise_error: Callable[[Any], Any] | None = None
    peek: Callable[[Any], Array] | None = None

    def run(self) -> list[str]:
        """Run all tests and return the names of the tests that were not skipped.

        Raises:
            AssertionError: a test fails.
        """
        passed = []
        for name in (name for name in dir(self) if name.startswith("test_")):
            # A test that this device cannot run is not a failure.
            with contextlib.suppress(unittest.SkipTest):
                getattr(self, name)()
                passed.append(name)
        return passed

    # --- memory -----------------------------------------------------------------------

    def test_found_by_its_name(self) -> None:
        place = self._usable()
        _same(find_device(place.name), place, "device(name)")
        # A device is one object: tensors that come back from a file must find it.
        _same(pickle.loads(pickle.dumps(place)), place, "the device, pickled")
        _same(repr(place), place.name, "repr(device)")

    def test_alloc_gives_shape_and_storage(self) -> None:
        place = self._usable()
        for storage in self._storages():
            for shape in SHAPES:
                made = place.alloc(shape, storage)
                found = tuple(made.shape), np.dtype(made.dtype), int(made.size)
                wanted = shape, storage, int(np.prod(shape))
                _same(found, wanted, f"alloc({shape}, {storage})")

    def test_there_and_back_bit_for_bit(self) -> None:
        place = self._usable()
        for storage in self._storages():
            for array in _layouts(storage):
                back = place.to_host(place.from_host(array))
                _equal(back, array, f"to_host(from_host({storage}{array.shape}))")

    def test_buffers_are_apart(self) -> None:
        place = self._usable()
        one, two = self._buffer(1.0), self._buffer(2.0)
        # Made before the launch, which an asynchronous device may run later.
        twin = place.copy(two)
        # The launch must change `two`, and neither its copy nor `one`.
        self._launch(two, one, two)
        for buffer, wanted in ((one, 1.0), (two, 3.0), (twin, 2.0)):
            _equal(place.to_host(buffer), _full(wanted), "one of several buffers")

    def test_a_buffer_is_not_the_host_array(self) -> None:
        place = self._usable()
        if place.dlpack == interop.HOST:
            return  # a host may share memory with itself
        array = _full(1.0)
        buffer = place.from_host(array)
        array[...] = 9.0
        place.to_host(buffer)[...] = 9.0
        _equal(place.to_host(buffer), _full(1.0), "a buffer after the host's changed")

    # --- launches ---------------------------------------------------------------------

    def test_launches_run_in_order(self) -> None:
        place = self._usable()
        x, one = self._buffer(1.0), self._buffer(1.0)
        for _ in range(3):
            self._launch(x, one, x)
            self._launch(x, x, x)
        _equal(place.to_host(x), _full(22.0), "((1 + 1)·2 + 1)·2 ...")

    def test_reading_waits(self) -> None:
        x = self._counted()
        _equal(self.device.to_host(x), _full(MANY), "to_host after many launches")

    def test_copying_waits(self) -> None:
        x = self._counted()
        twin = self.device.copy(x)
        _equal(self.device.to_host(twin), _full(MANY), "copy after many launches")

    def test_a_launch_holds_its_arguments(self) -> None:
        place = self._usable()
        x = self._buffer(0.0)
        for number in range(MANY):
            self._launch(x, self._buffer(float(number)), x)
        _equal(place.to_host(x), _full(sum(range(MANY))), "sums of buffers let go")

    def test_synchronize_waits(self) -> None:
        x = self._counted()
        self.device.synchronize()
        _equal(self._peek(x), _full(MANY), "a buffer after synchronize")
        self.device.synchronize()

    def test_threads_may_launch(self) -> None:
        self._usable()
        with ThreadPoolExecutor(THREADS) as pool:
            counted = [pool.submit(self._counted) for _ in range(THREADS)]
        for x in counted:
            found = self.device.to_host(x.result())
            _equal(found, _full(MANY), "a buffer of one thread among others")

    # --- streams ----------------------------------------------------------------------

    def test_a_stream_runs_in_order(self) -> None:
        place = self._usable()
        x, one, stream = self._buffer(1.0), self._buffer(1.0), place.stream()
        for _ in range(3):
            stream.launch(self._kernel(), x, one, x)
            stream.launch(self._kernel(), x, x, x)
        stream.synchronize()
        _equal(self._peek(x), _full(22.0), "((1 + 1)·2 + 1)·2 ... in a stream")

    def test_an_event_orders_two_streams(self) -> None:
        place = self._usable()
        x, one = self._buffer(0.0), self._buffer(1.0)
        first, second = place.stream(), place.stream()
        for _ in range(MANY):
            first.launch(self._kernel(), x, one, x)
        second.wait(first.record())
        second.launch(self._kernel(), x, x, x)
        _equal(place.to_host(x), _full(2 * MANY), "doubled behind an event")

    def test_an_event_is_done_after_its_launches(self) -> None:
        place = self._usable()
        x, one, stream = self._buffer(0.0), self._buffer(1.0), place.stream()
        for _ in range(MANY):
            stream.launch(self._kernel(), x, one, x)
        event = stream.record()
        event.wait()
        _equal(self._peek(x), _full(MANY), "counted before an event")
        event.wait()

    def test_launches_go_to_the_stream_entered(self) -> None:
        place = self._usable()
        outer, inner = place.stream(), place.stream()
        _same(place.current_stream(), None, "current_stream()")
        with outer, inner:
            _same(place.current_stream(), inner, "current_stream() inside")
            x = self._counted()
            event = inner.record()
        _same(place.current_stream(), None, "current_stream() afterwards")
        event.wait()
        _equal(self._peek(x), _full(MANY), "counted inside `with stream`")

    # --- errors -----------------------------------------------------------------------

    def test_a_failed_kernel_is_told(self) -> None:
        place, fail = self._usable(), type(self).raise_error
        if fail is None:
            raise unittest.SkipTest("no kernel that raises was given")
        x = self._buffer(1.0)
        error = _error(lambda: (place.launch(fail, x), place.to_host(x)))
        if not isinstance(error, DeviceError) or place.name not in error.problem:
            raise AssertionError(
                "a kernel that fails must raise a DeviceError that names "
                f"{place.name}, not {error!r}"
            )
        # The error may come again from `synchronize`; after that the device must work.
        _error(place.synchronize)
        _equal(place.to_host(self._counted()), _full(MANY), "counted after an error")

    # --- tensors ----------------------------------------------------------------------

    def test_there_are_tensor_types(self) -> None:
        _same(bool(self._leaves()), True, "whether a tensor type lives there")

    def test_tensors_come_and_go(self) -> None:
        for kind, here in self._tensors():
            there = to(here, self.device)
            _same(type(there), kind, f"to({type(here).__name__}, {self.device})")
            back = to(there, cpu)
            _same(type(back), type(here), f"to({kind.__name__}, cpu)")
            _equal(back.buffer, here.buffer, f"{kind.__name__} there and back")

    def test_tensors_are_copied_and_pickled(self) -> None:
        for kind, here in self._tensors():
            there = to(here, self.device)
            for twin in (copy.deepcopy(there), pickle.loads(pickle.dumps(there))):
                _same(type(twin), kind, f"the type of a copied {kind.__name__}")
                _equal(to(twin, cpu).buffer, here.buffer, f"a copied {kind.__name__}")

    def test_tensors_are_read_by_the_host(self) -> None:
        for kind, here in self._tensors():
            there, name = to(here, self.device), kind.__name__
            _same(there.tolist(), here.tolist(), f"{name}.tolist()")
            # Elements are not shown: that would copy them from the device.
            place = f"{type_and_shape(there)}(device={self.device.name!r})"
            wanted = repr(here) if self.device is cpu else place
            _same(repr(there), wanted, f"repr({name})")
            _same(there.__dlpack_device__(), self.device.dlpack, f"DLPack of {name}")

    # --- parts of the tests -----------------------------------------------------------

    def _usable(self) -> Device:
        if self.device.missing:
            raise unittest.SkipTest(self.device.missing)
        return self.device

    def _kernel(self) -> Callable[[Any, Any, Any], Any]:
        return type(self).add

    def _launch(self, a: object, b: object, out: object) -> None:
        self.device.launch(self._kernel(), a, b, out)

    def _buffer(self, number: float) -> Any:
        return self.device.from_host(_full(number))

    def _peek(self, buffer: object) -> Array:
        peek = type(self).peek
        return self.device.to_host(buffer) if peek is None else peek(buffer)

    def _counted(self) -> Any:
        """Return a buffer of zeros to which 1 is added many times, without waiting."""
        self._usable()
        x, one = self._buffer(0.0), self._buffer(1.0)
        for _ in range(MANY):
            self._launch(x, one, x)
        return x

    def _leaves(self) -> list[type[tensor.Tensor]]:
        """Return the tensor types of the device whose element type the host has."""
        self._usable()
        on_host = {kind.dtype for kind in tensor.leaves() if kind.device is cpu}
        mine = [kind for kind in tensor.leaves() if kind.device is self.device]
        return [kind for kind in mine if kind.dtype in on_host]

    def _storages(self) -> set[np.dtype[Any]]:
        return {kind.dtype.storage for kind in self._leaves()} | {np.dtype(np.float32)}

    def _tensors(self) -> Iterator[tuple[type[tensor.Tensor], Any]]:
        """Yield each plain tensor type of the device, with a host tensor for it."""
        for kind in self._leaves():
            if kind.dtype.name == kind.dtype.storage.name:
                # Only plain types: a quantized tensor needs a grid besides its array.
                array = next(_layouts(kind.dtype.storage))
                yield kind, tensor.leaf(kind.dtype).wrap(array)


def _layouts(storage: np.dtype[Any]) -> Iterator[Array]:
    """Yield small arrays in every memory layout, also read-only and empty ones."""
    numbers = (np.arange(6) % 2).astype(storage).reshape(2, 3)
    # A device that writes into its source is found by a read-only array.
    frozen = numbers.copy()
    frozen.flags.writeable = False
    yield from (numbers, numbers.T, numbers[::-1, ::2], frozen)
    yield np.broadcast_to(numbers[:1], (4, 3))
    yield from (np.empty(shape, storage) for shape in ((0,), (2, 0)))
    yield numbers[1, 1:2].reshape(())


def _full(number: float) -> Array:
    return np.full((2, 3), number, np.float32)


def _error(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _same(found: object, wanted: object, what: str) -> None:
    if not (found is wanted or found == wanted):
        raise AssertionError(f"{what} is {found!r}, not {wanted!r}")


def _equal(found: Array, wanted: Array, what: str) -> None:
    """Raise unless both arrays have the same shape, dtype and bytes."""
    _same((found.shape, found.dtype), (wanted.shape, wanted.dtype), f"{what}: the type")
    if found.tobytes() != wanted.tobytes():
        shown = f"{found.ravel()[:4]}, not {wanted.ravel()[:4]}"
        raise AssertionError(f"{what} begins with {shown}")
