"""Times of single calls: contenders take turns, so that a drifting machine hits all.

The demo and `bench.inference` measure with it; `bench` is not part of the wheel.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from itertools import chain
from math import inf

Call = Callable[[], object]
#: Seconds of each call by contender, one list for each turn.
Turns = dict[str, list[list[float]]]
#: The first calls of a turn find caches that the others filled, so one is not enough.
FEWEST = 3
#: How long to look whether threads compute, and to wait for them at most.
LOOK_SECONDS, MOST_SECONDS = 0.01, 1.0


def interleaved(
    contenders: Mapping[str, Call], rounds: int, seconds: float, most: float = inf
) -> Turns:
    """Time each call of each contender.

    Args:
        contenders: what to call, by name.
        rounds: how many turns each has. The first one changes from round to round.
        seconds: the length of a turn; it has three calls at least.
        most: how many calls a turn has at most.
    """
    names = list(contenders)
    counts = {name: _count(call, seconds, most) for name, call in contenders.items()}
    found: Turns = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            settle()
            found[name].append([once(contenders[name]) for _ in range(counts[name])])
    return found


def settle() -> None:
    """Wait until no thread of this process computes, or for a second.

    Threads of a runtime spin after its last call, for 40 ms in ONNX Runtime and for 110
    in OpenBLAS: the next contender would lack their processors.
    """
    end = time.perf_counter() + MOST_SECONDS
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(LOOK_SECONDS)
        if time.process_time() - before < LOOK_SECONDS / 10:
            return


def _count(call: Call, seconds: float, most: float) -> int:
    """Return how many calls make a turn, by the time of a second call."""
    once(call)
    return max(FEWEST, round(min(most, seconds / once(call))))


def once(call: Call) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(turns: Turns) -> dict[str, list[float]]:
    """Return the median call of each turn."""
    return {name: [*map(statistics.median, own)] for name, own in turns.items()}


def singles(turns: Turns) -> dict[str, list[float]]:
    """Return the calls of all turns."""
    return {name: [*chain.from_iterable(own)] for name, own in turns.items()}


def ratio(times: Mapping[str, list[float]], one: str, other: str) -> float:
    """Return the median of the ratios, round by round."""
    pairs = zip(times[one], times[other], strict=True)
    return statistics.median(a / b for a, b in pairs)
