"""The tests that every device passes, on three devices, and on those with one fault."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.queue_device import QueueBuffer, QueueDevice, QueueEvent, QueueStream
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor.conformance import DeviceConformance

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]
SLOW = 0.001  # seconds: what is not waited for is not done


def slow_add(a: Any, b: Any, out: Any) -> None:
    time.sleep(SLOW)
    np.add(a, b, out)


def divide_by_zero(x: Any) -> None:
    raise ZeroDivisionError


class TestCpu(DeviceConformance):
    device = md.cpu
    add = np.add
    raise_error = staticmethod(divide_by_zero)
    peek = np.copy


class TestCuda(DeviceConformance):
    device = md.cuda
    add = np.add


class OnShelf(DeviceConformance):
    add = np.add
    raise_error = staticmethod(divide_by_zero)
    peek = np.copy


class OnQueue(DeviceConformance):
    add = staticmethod(slow_add)
    raise_error = staticmethod(divide_by_zero)
    peek = QueueBuffer.raw


class TestShelf(OnShelf):
    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        with shelved(PLAIN) as self.device:
            yield


class TestQueue(OnQueue):
    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        with shelved(PLAIN, QueueDevice()) as self.device:
            yield
            self.device.close()


# --- devices with a fault, each with the test that finds it ---------------------------


class Sharing(Shelf):
    def from_host(self, array: Any) -> Any:
        return np.asarray(array)


class Widening(Shelf):
    def alloc(self, shape: tuple[int, ...], storage: Any) -> Any:
        return np.empty(shape, np.float64)


class Transposing(Shelf):
    def to_host(self, buffer: Any) -> Any:
        return np.array(buffer.T)


class Zeroing(Shelf):
    def copy(self, buffer: Any) -> Any:
        return np.zeros_like(buffer)


class Nameless(Shelf):
    def __reduce__(self) -> Any:
        return Shelf, ()


class Swapping(Shelf):
    """Runs each pair of launches in the wrong order."""

    def __init__(self) -> None:
        super().__init__()
        self.pending: Any = None

    def launch(self, kernel: Any, *arguments: Any) -> None:
        if self.pending is None:
            self.pending = (kernel, *arguments)
        else:
            super().launch(kernel, *arguments)
            self.synchronize()

    def synchronize(self) -> None:
        held, self.pending = self.pending, None
        if held:
            super().launch(*held)

    def to_host(self, buffer: Any) -> Any:
        self.synchronize()
        return np.array(buffer)


class Sloppy(Shelf):
    """Keeps the arguments of a launch where the next thread puts its own."""

    def launch(self, kernel: Any, *arguments: Any) -> None:
        self.arguments = arguments
        time.sleep(SLOW)
        super().launch(kernel, *self.arguments)


class Recycling(QueueDevice):
    """Gives every host array the memory of the one before."""

    kept: Any = None

    def from_host(self, array: Any) -> QueueBuffer:
        if self.kept is None or self.kept.shape != array.shape or array.max() == 0:
            self.kept = np.array(array)
            return QueueBuffer(self.kept.copy())
        self.kept[...] = array
        return QueueBuffer(self.kept)


class Hasty(QueueDevice):
    def to_host(self, buffer: QueueBuffer) -> Any:
        return buffer.raw()


class Idle(QueueDevice):
    def synchronize(self) -> None:
        return None


class Mute(QueueDevice):
    def failure(self, *_: Any) -> Any:
        return None


class OneQueue(QueueDevice):
    def launch(self, kernel: Any, *arguments: Any) -> None:
        self.streams[0].launch(kernel, *arguments)


class DeafStream(QueueStream):
    def wait(self, event: md.Event) -> None:
        return None


class EarlyStream(QueueStream):
    def record(self) -> QueueEvent:
        event = QueueEvent(self)
        event.done.set()
        return event


class Deaf(QueueDevice):
    streamed: type[QueueStream] = DeafStream

    def stream(self) -> QueueStream:
        self.streams.append(self.streamed(self))
        return self.streams[-1]


class Early(Deaf):
    streamed = EarlyStream


FAULTS: list[tuple[type[md.Device], str]] = [
    (Sharing, "a_buffer_is_not_the_host_array"),
    (Widening, "alloc_gives_shape_and_storage"),
    (Transposing, "there_and_back_bit_for_bit"),
    (Transposing, "tensors_come_and_go"),
    (Transposing, "tensors_are_read_by_the_host"),
    (Zeroing, "buffers_are_apart"),
    (Zeroing, "tensors_are_copied_and_pickled"),
    (Nameless, "found_by_its_name"),
    (Swapping, "launches_run_in_order"),
    (Swapping, "a_stream_runs_in_order"),
    (Sloppy, "threads_may_launch"),
    (Recycling, "a_launch_holds_its_arguments"),
    (Hasty, "reading_waits"),
    (Hasty, "copying_waits"),
    (Idle, "synchronize_waits"),
    (Mute, "a_failed_kernel_is_told"),
    (OneQueue, "launches_go_to_the_stream_entered"),
    (Deaf, "an_event_orders_two_streams"),
    (Early, "an_event_is_done_after_its_launches"),
]


@pytest.mark.parametrize(
    ("kind", "test"), FAULTS, ids=[f"{k.__name__}-{test}" for k, test in FAULTS]
)
def test_a_fault_is_found(kind: Any, test: str) -> None:
    suite: Any = OnQueue() if issubclass(kind, QueueDevice) else OnShelf()
    with shelved(PLAIN, kind()) as suite.device:
        with pytest.raises(AssertionError):
            getattr(suite, f"test_{test}")()
        getattr(suite.device, "close", bool)()


def test_a_device_without_tensors_is_found() -> None:
    suite = OnShelf()
    with shelved([]) as suite.device, pytest.raises(AssertionError, match="False, not"):
        suite.test_there_are_tensor_types()


TESTS = {name for name in dir(DeviceConformance) if name.startswith("test_")}


def test_every_test_can_fail() -> None:
    found = {f"test_{test}" for _, test in FAULTS}
    assert TESTS - found == {"test_there_are_tensor_types"}


def test_without_pytest() -> None:
    assert set(TestCpu().run()) == TESTS
    assert TestCuda().run() == []
