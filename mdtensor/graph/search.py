"""Searches among the ways to run a function: the fastest one of equal bytes.

A way has to give the bytes of the oracle, on the given tensors and on special and
random numbers, before it is timed. It has to gain more than the noise before it wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from mdtensor.errors import MdtensorError
from mdtensor.graph.calls import visit
from mdtensor.tensor import Tensor

Run = Callable[..., Any]
#: The least part of the time that a winner gains, and the most turns of each way.
LEAST_GAIN, TURNS = 0.03, 25
#: The fewest turns that tell anything, and the part of them that a winner wins.
FEWEST_TURNS, MOST_OF_TURNS = 10, 0.8
#: Numbers at which ways differ that agree on ordinary ones.
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38)


class Tried(NamedTuple):
    """One way, and what came of it.

    Args:
        name: of the way.
        seconds: its least time; infinite if it was not timed.
        why: the reason why it was not timed; empty if it was.
    """

    name: str
    seconds: float
    why: str


class Found(NamedTuple):
    """What a search found; its text says what was tried.

    Args:
        best: the name of the way that won.
        default: the name of the way that runs without a search.
        tried: every way.
        noise: the part of its time by which the default differs from itself.
        is_kept: whether an earlier search had found it.
    """

    best: str
    default: str
    tried: tuple[Tried, ...]
    noise: float
    is_kept: bool = False

    def __str__(self) -> str:
        lines = []
        for name, seconds, why in self.tried:
            mark = "*" if name == self.best else " "
            lines.append(f"{mark} {name}: {why or f'{1e6 * seconds:.1f} us'}")
        origin = ", found earlier" if self.is_kept else ""
        return "\n".join([*lines, f"noise {self.noise:.1%}{origin}"])


# Tolerances let a dropped last term pass, bytes do not (decision 0097).
def search(
    oracle: Run,
    ways: Mapping[str, Run],
    given: Sequence[Any],
    seconds: float,
    clock: Callable[[], float] = perf_counter,
) -> Found:
    """Return the fastest way that has the bytes of the oracle.

    Args:
        oracle: a function of tensors, whose result is right.
        ways: other functions, by name; the first one is the default.
        given: tensors to compare and to time with.
        seconds: no way is begun later than this.
        clock: returns seconds.
    """
    start, default = clock(), next(iter(ways))
    others = ([_like(x, at, odd) for at, x in enumerate(given)] for odd in (0.25, 0.0))
    cases = [[*given], *others]
    wanted = [outcome(oracle, case) for case in cases]
    times: dict[str, list[float]] = {}
    why: dict[str, str] = {}
    for name, way in ways.items():
        if clock() - start > seconds and name != default:
            why[name] = f"not tried within {seconds:g} s"
        elif [outcome(way, case) for case in cases] != wanted:
            why[name] = "rejected: it has other bytes than the oracle"
        else:
            times[name] = []
    for _ in range(TURNS):
        for name, taken in times.items():
            begin = clock()
            ways[name](*given)
            taken.append(clock() - begin)
        if clock() - start > seconds:
            break
    least = {name: min(taken) for name, taken in times.items()}
    noise = _noise(times.get(default, [0.0]))
    tried = tuple(Tried(n, least.get(n, np.inf), why.get(n, "")) for n in ways)
    return Found(_best(times, default, noise), default, tried, noise)


def _best(times: dict[str, list[float]], default: str, noise: float) -> str:
    """Return the fastest way, or the default if it gains no more than the noise.

    The way has to be faster in its least time, and in most turns: other processes slow
    a machine for many turns, so that of two equal ways one has the lesser least time.
    """
    known = times.get(default, [])
    best = min(times, key=lambda name: min(times[name]), default=default)
    if best == default or len(known) < FEWEST_TURNS:
        return default
    part = 1 - max(LEAST_GAIN, noise)
    faster = sum(x < part * y for x, y in zip(times[best], known, strict=True))
    is_faster = min(times[best]) < part * min(known)
    return best if is_faster and faster >= MOST_OF_TURNS * len(known) else default


def _noise(taken: Sequence[float]) -> float:
    """Return the part by which the least times of every other turn differ."""
    halves = [min(taken[at::2], default=taken[0]) for at in (0, 1)]
    return abs(halves[0] - halves[1]) / min(halves) if min(halves) > 0 else 0.0


def outcome(run: Run, given: Sequence[Any]) -> Any:
    """Return the types, shapes and bytes of a result, NaNs being equal; or an error."""
    found: list[Any] = []

    def note(x: Any) -> None:
        array = np.ascontiguousarray(x.to("cpu").to_parts()[0][""])
        # The bits of a NaN are nobody's promise.
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        found.append((type(x), x.shape, array.tobytes()))

    try:
        visit(run(*given), Tensor, note)
    except MdtensorError as error:
        return type(error)
    return found


def _like(x: Any, at: int, odd: float) -> Any:
    """Return a tensor of other floats; tensors of other types as they are.

    Args:
        x: the tensor.
        at: its place; equal tensors would hide ways that differ.
        odd: the part of the floats that are special.
    """
    if not x.dtype.is_floating or x.dtype.kind == "quantized":
        return x
    rng = np.random.default_rng((at, int(100 * odd)))
    values = rng.standard_normal(x.shape) * 4
    is_special = rng.random(x.shape) < odd
    mixed = np.where(is_special, rng.choice(SPECIAL, x.shape), values)
    with np.errstate(all="ignore"):
        array = np.asarray(mixed).astype(x.dtype.storage)
    host = type(x) if x.device.name == "cpu" else type(x).with_device("cpu")
    return host.wrap(array).to(x.device)
