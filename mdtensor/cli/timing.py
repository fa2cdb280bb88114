"""Times of contenders in turn, A B A B ..., so that a drifting machine hits all."""

import statistics
import time
from collections.abc import Callable, Mapping

Call = Callable[[], object]
#: Threads of a runtime spin for a while after its last call.
SETTLE_SECONDS = 0.02


def interleaved(
    contenders: Mapping[str, Call], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds per call of each contender: its median in each round.

    Args:
        contenders: what to call, by name.
        rounds: how often everyone has a turn.
        seconds: length of a turn.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            time.sleep(SETTLE_SECONDS)
            found[name].append(_turn(call, seconds))
    return found


def _turn(call: Call, seconds: float) -> float:
    for _ in range(3):
        call()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def medians(times: Mapping[str, list[float]]) -> dict[str, float]:
    """The median over the rounds."""
    return {name: statistics.median(values) for name, values in times.items()}


def ratio(times: Mapping[str, list[float]], one: str, other: str) -> float:
    """The median of the ratios, round by round."""
    pairs = zip(times[one], times[other], strict=True)
    return statistics.median(a / b for a, b in pairs)
