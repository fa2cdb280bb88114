"""A device that computes on threads of its own: when its results are there."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support.queue_device import QueueDevice
from support.queue_ops import queued

import mdtensor as md
from mdtensor.errors import DeviceError

SHORT = 0.02  # seconds that a reader who does not wait would need at most
X = [[1.0, -2.0], [3.0, 4.0]]


@pytest.fixture
def place() -> Iterator[QueueDevice]:
    with queued() as made:
        yield made


def waits(place: QueueDevice, read: Callable[[], Any]) -> Any:
    """What `read` gives; it must not come before the first stream's gate opens."""
    gate = place.streams[0].gate
    gate.clear()
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(read)
        time.sleep(SHORT)
        early = found.done()
        gate.set()
        assert not early
        return found.result(10)


READS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("to_host", lambda x: x.device.to_host(x.buffer).tolist(), 12.0),
    ("to", lambda x: x.to("cpu").tolist(), 12.0),
    ("to_device", lambda x: x.to_device("cpu").tolist(), 12.0),
    ("tolist", lambda x: x.tolist(), 12.0),
    ("item", lambda x: x.item(), 12.0),
    ("float", float, 12.0),
    ("int", int, 12),
    ("bool", bool, True),
    ("complex", complex, 12 + 0j),
    ("format", lambda x: f"{x:.1f}", "12.0"),
    ("dlpack", lambda x: np.from_dlpack(Handed(x)).tolist(), 12.0),
    ("deepcopy", lambda x: x.__deepcopy__({}).tolist(), 12.0),
    ("pickle", lambda x: x.__reduce__()[1][0].tolist(), 12.0),
]


class Handed:
    """Hands a tensor of another device over as one of the host."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**{**options, "dl_device": (1, 0)})

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize(
    ("read", "wanted"), [r[1:] for r in READS], ids=[r[0] for r in READS]
)
def test_reading_waits(place: QueueDevice, read: Any, wanted: Any) -> None:
    x = md.to(md.asarray(X), place)

    def run() -> Any:
        return read(md.sum(x + x))

    assert waits(place, run) == wanted


def test_a_call_does_not_wait(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)
    place.streams[0].gate.clear()
    y = md.relu(x @ x) * 2
    assert (type(y), y.shape, y.device) == (type(x), (2, 2), place)
    assert repr(y) == "QueueFloat32Tensor[2,2](device='queue')"
    place.streams[0].gate.set()
    assert y.tolist() == [[0.0, 0.0], [30.0, 20.0]]


def test_a_raw_read_is_old_before_and_new_after_synchronize(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)
    one = md.to(md.asarray(1.0), place)
    place.streams[0].gate.clear()
    place.launch(np.add, x.buffer, one.buffer, x.buffer)
    old = x.buffer.raw()
    place.streams[0].gate.set()
    place.synchronize()
    assert old.tolist() == X
    assert x.buffer.raw().tolist() == [[2.0, -1.0], [4.0, 5.0]]
    assert place.streams[0].waits == 1


def test_reading_waits_for_what_the_buffer_depends_on(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)
    with place.stream() as slow:
        slow.gate.clear()
        late = x + x
    with place.stream():
        soon = x * 3
    assert soon.tolist() == [[3.0, -6.0], [9.0, 12.0]]
    assert x.tolist() == X
    assert not late.buffer.written.done.is_set()
    slow.gate.set()
    assert late.tolist() == [[2.0, -4.0], [6.0, 8.0]]
    assert [stream.waits for stream in place.streams] == [0, 0, 0]


def test_one_stream_is_waited_for_without_the_other(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)
    slow, quick = place.stream(), place.stream()
    slow.gate.clear()
    with slow:
        late = x + x
    with quick:
        soon = x + x
    quick.synchronize()
    assert soon.buffer.raw().tolist() == [[2.0, -4.0], [6.0, 8.0]]
    assert late.buffer.raw().tolist() != soon.buffer.raw().tolist()
    slow.gate.set()
    place.synchronize()
    assert late.buffer.raw().tolist() == soon.buffer.raw().tolist()


def test_an_event_orders_streams(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)
    first, second = place.stream(), place.stream()
    first.gate.clear()
    with first:
        y = x + x
    with second:
        unordered = y * 1  # takes what is there: y is not yet written
        second.synchronize()
        second.wait(first.record())
        ordered = y * 1
    first.gate.set()
    assert ordered.tolist() == [[2.0, -4.0], [6.0, 8.0]]
    assert unordered.tolist() != ordered.tolist()


def test_the_host_waits_for_an_event(place: QueueDevice) -> None:
    x = md.to(md.asarray(X), place)

    def run() -> Any:
        y = x + x
        place.streams[0].record().wait()
        return y.buffer.raw().tolist()

    assert waits(place, run) == [[2.0, -4.0], [6.0, 8.0]]


def test_streams_are_entered_by_thread(place: QueueDevice) -> None:
    with place.stream() as mine, place.stream() as inner:
        assert place.current_stream() is inner
        assert md.cpu.current_stream() is None
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(place.current_stream).result() is None
        with md.cpu.stream(), mine:
            assert place.current_stream() is mine
    assert place.current_stream() is None


def test_a_stream_waits_for_an_event_of_another_device(place: QueueDevice) -> None:
    x = md.to(md.asarray([1.0]), place)
    y = x + x
    md.cpu.stream().wait(place.streams[0].record())
    assert y.buffer.raw().tolist() == [2.0]
    stream = place.stream()
    stream.wait(md.cpu.stream().record())
    with stream:
        assert (x + x).tolist() == [2.0]


def test_moved_in_a_stream(place: QueueDevice) -> None:
    stream = place.stream()
    x = md.asarray([1.0]).to_device(place, stream=stream)
    assert x.to_device("cpu", stream=stream).tolist() == [1.0]


def test_the_error_of_a_kernel_comes_where_it_is_waited_for(place: QueueDevice) -> None:
    def add(*_: Any) -> None:
        raise ZeroDivisionError

    x, y = (md.to(md.asarray(X), place) for _ in "xy")
    place.launch(add, x.buffer, x.buffer)
    after = x + y  # computed from what was never written
    wanted = (
        "add(QueueBuffer[2,2], QueueBuffer[2,2]): the kernel failed on queue with "
        "ZeroDivisionError."
    )
    for wait in (place.synchronize, x.tolist, after.tolist, after.tolist):
        with pytest.raises(DeviceError) as caught:
            wait()
        assert str(caught.value) == wanted
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
    place.synchronize()
    assert (y + y).tolist() == [[2.0, -4.0], [6.0, 8.0]]


def test_an_error_of_the_host_comes_at_once() -> None:
    def halve(x: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(DeviceError, match=r"^halve\(ndarray\[2\]\): the kernel failed"):
        md.cpu.launch(halve, np.ones(2))


def test_an_error_of_ours_stays_as_it_is() -> None:
    def refuse() -> None:
        raise md.ShapeError("no", "Use another", "refuse()")

    with pytest.raises(md.ShapeError, match="no"):
        md.cpu.launch(refuse)
