"""Events: whether they are done, and the time between two of them."""

from typing import Any

import numpy as np
import pytest
from support import rendered_device

import mdtensor as md
from mdtensor.errors import DeviceError, OptionError

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


def test_a_question_does_not_wait_and_a_loop_of_them_ends() -> None:
    x = md.asarray(np.ones(8, np.float32)).to(gpu)
    stream = gpu.stream()
    stream.wait(gpu.main_stream().record())
    with stream, md.trace_device() as log, md.no_sync():
        y = x
        for _ in range(5):
            y = y + x
        done = stream.record()
        questions = 1
        while not done.is_done:
            questions += 1
    assert not log.waits
    if rendered_device.name() == "emucuda":
        # The wait for the main stream, and five launches.
        assert questions == 6
    assert y.tolist() == [6.0] * 8


@pytest.mark.skipif(rendered_device.name() != "emucuda", reason="others run at once")
def test_an_event_that_is_not_done_has_no_time() -> None:
    x = md.asarray(np.ones(8, np.float32)).to(gpu)
    stream = gpu.stream()
    stream.wait(gpu.main_stream().record())
    start = stream.record()
    with stream:
        for _ in range(5):
            x = x * 2.0
    end = stream.record()
    with pytest.raises(DeviceError, match=r"emucuda: this event is not done.*wait\(\)"):
        end.milliseconds_since(start)
    end.wait()
    assert 0 <= end.milliseconds_since(start) < 60_000


def test_times_add_up() -> None:
    stream = gpu.stream()
    events = [stream.record()]
    with stream:
        x = md.zeros(4, device=gpu)
        for _ in range(2):
            x = x + 1
            events.append(stream.record())
    events[-1].wait()
    first, second, third = events
    parts = second.milliseconds_since(first), third.milliseconds_since(second)
    assert min(parts) >= 0
    assert third.milliseconds_since(first) == pytest.approx(sum(parts), abs=0.01)
    assert first.milliseconds_since(third) == -third.milliseconds_since(first)


def test_events_of_one_device() -> None:
    event = gpu.stream().record()
    for other in (md.cpu.stream().record(), 3):
        with pytest.raises(OptionError, match=f"not an event of {gpu}"):
            event.milliseconds_since(other)


def test_a_device_that_does_not_say() -> None:
    place = type("Silent", (type(md.cpu),), {"name": "silent"})()
    event = md.Event(md.Stream(place))
    with pytest.raises(DeviceError, match="silent do not say whether they are done"):
        _ = event.is_done
    with pytest.raises(DeviceError, match="silent do not say"):
        event.milliseconds_since(event)
