"""A turn begins on processors that nobody of this process uses."""

import threading
import time

from mdtensor.cli import timing


def spin_until(end: float) -> None:
    while time.perf_counter() < end:
        pass


def test_a_turn_waits_for_threads_that_still_compute() -> None:
    end = time.perf_counter() + 0.2
    spinning = threading.Thread(target=spin_until, args=(end,))
    spinning.start()
    timing.settle()
    assert time.perf_counter() >= end
    spinning.join()


def test_threads_that_never_rest_are_not_waited_for_for_ever() -> None:
    start = time.perf_counter()
    spinning = threading.Thread(target=spin_until, args=(start + 3,), daemon=True)
    spinning.start()
    timing.settle()
    assert timing.MOST_SECONDS <= time.perf_counter() - start < 3
    spinning.join()
