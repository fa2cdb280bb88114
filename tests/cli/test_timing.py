"""A turn begins on processors that nobody of this process uses."""

import threading
import time
from collections.abc import Callable

from mdtensor.cli import demo


def spin_until(end: float) -> None:
    while time.perf_counter() < end:
        pass


def test_a_turn_waits_for_threads_that_still_compute() -> None:
    end = time.perf_counter() + 0.2
    spinning = threading.Thread(target=spin_until, args=(end,))
    spinning.start()
    demo.settle()
    assert time.perf_counter() >= end
    spinning.join()


def test_threads_that_never_rest_are_not_waited_for_for_ever() -> None:
    start = time.perf_counter()
    spinning = threading.Thread(target=spin_until, args=(start + 3,), daemon=True)
    spinning.start()
    demo.settle()
    assert demo.MOST_SECONDS <= time.perf_counter() - start < 3
    spinning.join()


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
