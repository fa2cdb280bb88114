"""`parallel_for`: each index once, in any split, nested, and with errors."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.tables import Adaptive, Uniform

SCHEDULES = ["uniform", "adaptive", Uniform, Adaptive]


@pytest.fixture(autouse=True, scope="module")
def three() -> Iterator[None]:
    """Three threads, however many cores there are."""
    before = md.get_num_threads()
    md.set_num_threads(3)
    yield
    md.set_num_threads(before)


def pieces(start: Any, end: Any, grain: Any, **options: Any) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    md.parallel_for(start, end, grain, lambda a, b: found.append((a, b)), **options)
    return sorted(found)


@settings(max_examples=200, deadline=None)
@given(
    start=st.integers(-1000, 1000),
    count=st.integers(-5, 2000),
    grain=st.integers(1, 500),
    scheduling=st.sampled_from(SCHEDULES),
)
def test_pieces_cover_the_range_once(
    start: int, count: int, grain: int, scheduling: object
) -> None:
    found = pieces(start, start + count, grain, scheduling=scheduling)
    indices = [i for a, b in found for i in range(a, b)]
    assert indices == list(range(start, start + count))
    assert all(b - a >= grain for a, b in found[:-1])
    most = 3 if scheduling in ("uniform", Uniform) else 48
    assert len(found) <= most and all(type(x) is int for piece in found for x in piece)


def test_adaptive_has_more_pieces_than_uniform() -> None:
    assert len(pieces(0, 480, 1)) == 3
    assert len(pieces(0, 480, 1, scheduling="adaptive")) == 48
    assert pieces(0, 480, 480, scheduling="adaptive") == [(0, 480)]


def test_the_ends_of_64_bits() -> None:
    least, most = -(2**63), 2**63 - 1
    found = pieces(least, most, 2**62)
    assert found[0][0] == least and found[-1][1] == most
    assert all(a[1] == b[0] for a, b in pairwise(found))


def test_tensors_without_axes_as_bounds() -> None:
    start, end, grain = (md.asarray(n) for n in (1, 5, 9))
    found: list[Any] = []
    md.parallel_for(start, end, grain, lambda a, b: found.append((a, b)))
    assert found == [(1, 5)] and type(found[0][0]) is int
    with pytest.raises(md.ShapeError, match="end is Float32Tensor"):
        md.parallel_for(0, md.asarray(5.0), 1, print)


def test_numbers_of_numpy() -> None:
    assert pieces(np.int8(-100), np.int8(100), np.uint8(255)) == [(-100, 100)]


def test_several_threads_work() -> None:
    # Each piece waits for two others, which only other threads can run.
    barrier = threading.Barrier(3, timeout=60)
    md.parallel_for(0, 3, 1, lambda a, b: barrier.wait())


def test_nested_calls_run_in_their_piece() -> None:
    """Each index once, on the thread of the piece, and in one piece."""
    found: Counter[tuple[int, int]] = Counter()
    inner_pieces: list[int] = []

    def outer(begin: int, stop: int) -> None:
        own = threading.get_ident()
        for i in range(begin, stop):

            def inner(first: int, last: int, i: int = i) -> None:
                assert threading.get_ident() == own
                inner_pieces.append(last - first)
                for j in range(first, last):
                    md.parallel_for(j, j + 1, 1, lambda k, _: found.update([(i, k)]))

            md.parallel_for(0, 7, 1, inner)

    md.parallel_for(0, 30, 1, outer, scheduling="adaptive")
    assert found == Counter((i, j) for i in range(30) for j in range(7))
    assert inner_pieces == [7] * 30
    # A later call is not nested any more.
    assert len(pieces(0, 30, 1)) == 3


def test_calls_of_many_threads_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = [
            pool.submit(pieces, 0, 100, 1, scheduling="adaptive") for _ in range(40)
        ]
        for run in runs:
            found = run.result(timeout=60)
            assert [i for a, b in found for i in range(a, b)] == list(range(100))


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()])
def test_an_exception_comes_when_all_threads_rest(error: BaseException) -> None:
    running = [0]
    lock = threading.Lock()

    def work(begin: int, stop: int) -> None:
        with lock:
            running[0] += 1
        try:
            time.sleep(0.01)
            if begin == 4:
                raise error
        finally:
            with lock:
                running[0] -= 1

    with pytest.raises(type(error)) as caught:
        md.parallel_for(0, 48, 1, work, scheduling="adaptive")
    assert caught.value is error and running == [0]
    assert len(pieces(0, 30, 1)) == 3


def test_an_error_of_ours_passes_as_it_is() -> None:
    def work(begin: int, stop: int) -> None:
        md.add(md.ones(2), md.ones(3))

    with pytest.raises(md.ShapeError, match=r"^add\("):
        md.parallel_for(0, 9, 1, work)


def test_contexts_of_the_caller_hold_in_each_piece() -> None:
    """Results do not depend on the thread that a piece runs on."""
    barrier = threading.Barrier(3, timeout=60)
    kinds, names = [], []
    x, y = md.ones(3, dtype=md.int32), md.ones(3, dtype=md.float32)

    def work(begin: int, stop: int) -> None:
        barrier.wait()
        kinds.append((x + y).dtype)
        names.append(threading.current_thread().name)
        md.asarray([100], dtype=md.int8) + md.asarray([100], dtype=md.int8)

    expected = []
    for rules in ("torch", "numpy"):
        with md.promotion_rules(rules), md.checked() as log:
            expected += 3 * [(x + y).dtype]
            md.parallel_for(0, 3, 1, work)
        assert log.lost["wrapped"] == 3
    assert kinds == expected and len(set(names)) >= 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((0.5, 3, 1, print), md.ShapeError, "start is 0.5"),
        ((0, True, 1, print), md.ShapeError, "end is True"),
        ((0, 2**63, 1, print), md.ShapeError, "end is 9223372036854775808"),
        ((0, "3", 1, print), md.ShapeError, "end is '3'"),
        ((0, 3, 0, print), md.OptionError, "grain is 0"),
        ((0, 3, 1.0, print), md.OptionError, "grain is 1.0"),
        ((0, 3, 1, "print"), md.OptionError, "'print' cannot be called"),
    ],
)
def test_wrong_arguments(arguments: Any, error: type, words: str) -> None:
    with pytest.raises(error) as caught:
        md.parallel_for(*arguments)
    assert str(caught.value).startswith("parallel_for(") and words in str(caught.value)
    with pytest.raises(md.OptionError, match="scheduling is 'other'"):
        md.parallel_for(0, 3, 1, print, scheduling="other")
