"""A job is left to one thread where that is faster, and tried again later."""

import pytest

from mdtensor.kernels.cpu.threads import pool
from mdtensor.kernels.cpu.threads.pool import (
    CREDIT,
    PROBE,
    REST,
    SAVINGS,
    Profitability,
)


@pytest.fixture
def now(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(pool.time, "perf_counter", lambda: clock[0])
    return clock


def test_the_second_call_and_some_later_ones_are_for_one_thread(now):
    found = Profitability()
    alone = [i for i in range(1, 3 * PROBE) if not found.wants_pool()]
    assert alone == [2, PROBE + 2, 2 * PROBE + 2]


def test_the_time_of_one_thread_is_the_least_of_late(now):
    found = Profitability()
    for seconds, want in ((3.0, 3.0), (1.0, 1.0), (9.0, 1.02), (1.03, 1.03)):
        found.took_alone(seconds)
        assert found.alone == pytest.approx(want, rel=0.02)


def test_a_second_thread_saves_half_at_most():
    found = Profitability()
    assert found.gain() > 1e9, "not known yet"
    found.took_alone(0.010)
    assert found.gain() == 0.005


def test_losses_beyond_the_credit_bring_a_rest(now):
    found = Profitability()
    found.took(1.0)  # nothing to compare with
    found.took_alone(0.010)
    found.took(0.010 + CREDIT * 0.9)
    assert not found.rests(now[0])
    found.took(0.010 + CREDIT * 0.2)
    assert found.rests(now[0])
    now[0] += REST
    assert not found.rests(now[0])


def test_rests_double_until_there_are_gains(now):
    found = Profitability()
    found.took_alone(0.010)
    for length in (REST, 2 * REST, 4 * REST):
        found.took(1.0)
        assert found.rests_until == now[0] + length
        now[0] = found.rests_until
    for _ in range(9):
        found.took(0.005)
    found.took(1.0)
    assert found.rests_until == now[0] + REST


def test_gains_may_be_lost_again_up_to_a_limit(now):
    found = Profitability()
    found.took_alone(1.0)
    found.took(0.5)
    found.took(1.0 + SAVINGS)
    assert found.rests_until == 0.0
    found.took(1.0 + CREDIT * 1.1)
    assert found.rests_until > now[0]
