"""A turn begins on processors that nobody of this process uses."""

import threading
import time
from collections.abc import Callable

import pytest

from mdtensor.cli import demo


class Clock:
    """The time of a process with spinning threads, on a machine without other load.

    Args:
        spins_until: the second at which the last thread rests.
        share: the part of a processor that the threads get.
    """

    def __init__(self, spins_until: float, share: float = 1.0) -> None:
        self.now = 100.0
        self.used = 7.0
        self.looks = 0
        self._spins_until = 100.0 + spins_until
        self._share = share

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        """Let the threads compute as long as they do."""
        computing = min(seconds, max(0.0, self._spins_until - self.now))
        self.used += self._share * computing
        self.now += seconds
        self.looks += 1


@pytest.mark.parametrize("share", [0.2, 1.0, 2.0])
@pytest.mark.parametrize("seconds", [0.0, 0.04, 0.11, 0.2])
def test_a_turn_waits_for_threads_that_still_compute(
    seconds: float, share: float
) -> None:
    """It begins when they rest, and within two looks."""
    clock = Clock(seconds, share)
    demo.settle(clock)
    assert seconds <= clock.now - 100 <= seconds + 2 * demo.LOOK_SECONDS + 1e-6


def test_threads_that_never_rest_are_not_waited_for_for_ever() -> None:
    clock = Clock(spins_until=1e9)
    demo.settle(clock)
    waited = clock.now - 100
    assert demo.MOST_SECONDS <= waited <= demo.MOST_SECONDS + demo.LOOK_SECONDS + 1e-6


def test_threads_that_rest_cost_one_look() -> None:
    clock = Clock(0.0)
    demo.settle(clock)
    assert clock.looks == 1


def test_the_time_of_other_threads_counts() -> None:
    """Even if the machine is busy, the clock of the process sees them some time."""
    rest = threading.Event()
    spinning = threading.Thread(target=lambda: [None for _ in iter(rest.is_set, True)])
    start, own = time.process_time(), time.thread_time()
    end = time.perf_counter() + 60
    spinning.start()
    others = 0.0
    while others < 0.02 and time.perf_counter() < end:
        time.sleep(demo.LOOK_SECONDS)
        others = (time.process_time() - start) - (time.thread_time() - own)
    rest.set()
    spinning.join()
    assert others >= 0.02


def test_the_clock_of_the_system_is_the_default() -> None:
    """The wait ends, however loaded the machine is."""
    start = time.process_time()
    demo.settle()
    assert time.process_time() - start < demo.MOST_SECONDS


def test_contenders_take_turns_and_every_call_is_timed() -> None:
    order: list[str] = []

    def called(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    found = demo.time_in_turns({"a": called("a"), "b": called("b")}, 3, 0.0)
    assert order == ["a", "a", "b", "b", *"aaabbb", *"bbbaaa", *"aaabbb"]
    assert {name: [len(turn) for turn in own] for name, own in found.items()} == {
        "a": [3, 3, 3],
        "b": [3, 3, 3],
    }
    assert [len(own) for own in demo.singles(found).values()] == [9, 9]


def test_a_turn_has_no_more_calls_than_are_allowed() -> None:
    found = demo.time_in_turns({"a": lambda: None}, 1, 1.0, most=5)
    assert len(found["a"][0]) == 5


def test_ratios_are_those_of_turns() -> None:
    times = demo.medians({"a": [[1.0, 2.0, 9.0], [4.0]], "b": [[1.0], [1.0]]})
    assert times == {"a": [2.0, 4.0], "b": [1.0, 1.0]}
    assert demo.ratio(times, "a", "b") == 3.0
