"""Long calls of one step run on the threads of a block, in pieces."""

import threading

import numpy as np
import pytest

from mdtensor.kernels.cpu.program import steps
from mdtensor.kernels.cpu.threads import pieces
from mdtensor.kernels.numpy.threads import THREADS
from tests.kernels.cpu.test_cut import codes

TABLE = codes(256)


@pytest.fixture(autouse=True)
def two_threads():
    token = THREADS.set(2)
    yield
    THREADS.reset(token)


def watch(call):
    """Return the list to which calls add the thread of each piece."""
    invoke, seen = call.invoke, []

    def watched(*arguments):
        seen.append(threading.get_ident())
        return invoke(*arguments)

    call.invoke = watched
    return seen


def test_a_long_call_has_two_pieces_for_each_thread(monkeypatch):
    monkeypatch.setattr(pieces, "LONG_NANOSECONDS", 1000)
    x = codes(8192)
    call = steps.Lookup(TABLE).bound(x.shape)
    seen = watch(call)
    assert np.array_equal(call(x), TABLE[x])
    assert len(seen) == 4


def test_a_short_call_runs_whole():
    x = codes(8192)
    call = steps.Lookup(TABLE).bound(x.shape)
    seen = watch(call)
    assert np.array_equal(call(x), TABLE[x])
    assert seen == [threading.get_ident()]


def test_a_call_outside_of_a_block_runs_whole(monkeypatch):
    monkeypatch.setattr(pieces, "LONG_NANOSECONDS", 0)
    monkeypatch.delenv("MDTENSOR_NUM_THREADS", raising=False)
    THREADS.set(None)
    x = codes(8192)
    call = steps.Lookup(TABLE).bound(x.shape)
    seen = watch(call)
    assert np.array_equal(call(x), TABLE[x])
    assert seen == [threading.get_ident()]


def test_an_error_of_a_piece_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(pieces, "LONG_NANOSECONDS", 0)
    x = codes(8192)
    call = steps.Lookup(TABLE).bound(x.shape)

    def fail(*arguments):
        raise MemoryError("no scratch")

    call.invoke = fail
    with pytest.raises(MemoryError, match="no scratch"):
        call(x)
