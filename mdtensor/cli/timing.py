"""Times of contenders in turn, A B A B ..., so that a drifting machine hits all."""

import statistics
import time
from collections.abc import Callable, Mapping

Call = Callable[[], object]
#: How long to look whether threads compute, and to wait for them at most.
LOOK_SECONDS, MOST_SECONDS = 0.01, 1.0


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
            settle()
            found[name].append(_turn(call, seconds))
    return found


def settle() -> None:
    """Wait until no thread of this process computes, or for a second.

    Threads of a runtime spin after its last call, for 40 ms in ONNX Runtime and for 110
    in OpenBLAS: whoever has the next turn would lack their processors.
    """
    end = time.perf_counter() + MOST_SECONDS
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(LOOK_SECONDS)
        if time.process_time() - before < LOOK_SECONDS / 10:
            return


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
