"""Memory of large results: used again, and never while somebody looks at it."""

import gc
import threading
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels import numpy as kernels

LARGE = 1 << 12


@pytest.fixture(autouse=True)
def short(monkeypatch: Any) -> None:
    """Some thousand bytes are large, and nothing is left by others."""
    monkeypatch.setattr(kernels, "LARGE", LARGE)
    monkeypatch.setattr(kernels, "MOST_FREE", 4 * LARGE)
    kernels._FREE.clear()


def address(x: Any) -> int:
    return int(x.__array_interface__["data"][0])


def test_a_result_takes_the_memory_that_the_last_one_left() -> None:
    first = kernels.empty((LARGE,), np.float32)
    at = address(first)
    second = kernels.empty((LARGE,), np.float32)
    assert address(second) != at
    del first
    assert address(kernels.empty((4, LARGE // 4), np.int32)) == at


@pytest.mark.parametrize(
    "look", [lambda a: a[5:], lambda a: a.T, memoryview, md.asarray]
)
def test_memory_stays_while_anything_looks_at_it(look: Any) -> None:
    made = kernels.empty((LARGE,), np.float32)
    made[:] = 7
    view = look(made)
    del made
    other = kernels.empty((LARGE,), np.float32)
    other[:] = 9
    assert (np.asarray(view) == 7).all()
    del view
    gc.collect()
    assert len(kernels._FREE) == 1


def test_a_part_of_the_loan_gives_nothing_back() -> None:
    made = kernels.empty((LARGE,), np.uint8)
    part = made.base[3:]
    del part
    assert not kernels._FREE


def test_little_is_kept_and_other_sizes_are_not_taken() -> None:
    blocks = [kernels.empty((LARGE,), np.uint8) for _ in range(7)]
    del blocks
    assert sum(block.size for block in kernels._FREE) == 4 * LARGE
    assert kernels.empty((2 * LARGE,), np.uint8).base.base.size == 2 * LARGE
    assert kernels.empty((LARGE // 2,), np.uint8).base is None
    assert kernels._take_block(LARGE // 2 + 1) is None  # twice as much would be wasted


def test_threads_never_share_a_block() -> None:
    failed: list[int] = []

    def work(value: int) -> None:
        for _ in range(300):
            mine = kernels.empty((LARGE // 4,), np.int32)
            mine[:] = value
            if not (mine == value).all():
                failed.append(value)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_large_results_of_operations_are_right(rng: Any) -> None:
    a = rng.standard_normal(1 << 22, dtype=np.float32)
    x = md.from_numpy(a)
    for _ in range(3):
        found, other = x + x, md.tan(x)
        assert np.array_equal(found.buffer, a + a)
        # Computed in float64, rounded once.
        wanted = np.tan(a.astype(np.float64)).astype(np.float32)
        assert np.array_equal(other.buffer, wanted)
