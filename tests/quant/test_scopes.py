"""Blocks of rounding, threads and runways: one block, entered by many."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mdtensor import quant
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.numpy.threads import THREADS
from mdtensor.quant import rules

BLOCKS = {
    "rounding": (lambda: quant.rounding("onnx"), rules.CURRENT.get),
    "threads": (lambda: quant.threads(3), THREADS.get),
    "runway": (lambda: quant.runway("generic"), lambda: kernel_set.CHOSEN.get().name),
}
VALUES = {"rounding": "onnx", "threads": 3, "runway": "generic"}


@pytest.fixture(params=BLOCKS)
def block(request):
    """A block, what is in force, and what is in force inside."""
    make, current = BLOCKS[request.param]
    return make(), current, VALUES[request.param]


def test_tasks_share_a_block(block):
    shared, current, inside = block
    before = current()

    async def task(turns):
        await asyncio.sleep(0)
        with shared:
            for _ in range(turns):
                await asyncio.sleep(0)
                assert current() == inside
        return current()

    async def tasks():
        return await asyncio.gather(*map(task, (3, 1, 5, 2)))

    assert asyncio.run(tasks()) == [before] * 4


def test_threads_share_a_block(block):
    shared, current, inside = block
    before, together = current(), Barrier(2)

    def leave_in_turn(first):
        with shared:
            together.wait()
            if not first:
                together.wait()
            assert current() == inside
        found = current()
        if first:
            together.wait()
        return found

    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(leave_in_turn, (True, False))] == [before] * 2


def test_a_block_is_entered_again_inside_of_itself(block):
    shared, current, inside = block
    before = current()
    with shared:
        with shared:
            assert current() == inside
        assert current() == inside
    assert current() == before


def test_leaving_what_was_not_entered_changes_nothing(block):
    shared, current, _ = block
    before = current()
    shared.__exit__(None, None, None)
    assert current() == before


def test_a_generator_is_closed_by_another_thread(block):
    shared, current, _ = block
    before = current()

    def suspended():
        with shared:
            yield

    steps = suspended()
    next(steps)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(steps.close).result()
        assert pool.submit(current).result() == before
    shared.__exit__(None, None, None)  # the block is still open in this thread
    assert current() == before
