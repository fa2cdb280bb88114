"""Latency: calls of one image, each timed, by all runtimes in turns."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.harness import Reading
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort, Samples
from bench.inference.networks import Network
from bench.inference.runtimes import OURS, Call, calls, distances
from mdtensor.cli import demo
from mdtensor.cli.demo import limit_threads
from mdtensor.quant import threads as our_threads

ONE, TWO = "1 thread", "2 threads"
#: The calls of one turn at most, and how long it lasts at most.
CALLS, TURN_SECONDS = 100, 0.1


@dataclass(frozen=True)
class Latency:
    """Calls of one network by several runtimes, each call timed."""

    name: str
    network: Callable[[], Network]
    threads: int

    @property
    def table(self) -> str:
        return f"One image a call: {self.name}"

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        network.check()
        with (
            pinned(self.threads),
            limit_threads(self.threads),
            our_threads(self.threads),
        ):
            ways = calls(network, network.images[:1], self.threads)
            off = distances({name: call() for name, call in ways.items()})
            samples, singles = taken(ways, effort)
        more = {
            name: {**percentiles(values), "off by": f"{off[name]:.2%}"}
            for name, values in singles.items()
        }
        return timed(self.table, self.name, samples, OURS, more)


@dataclass(frozen=True)
class Busy:
    """Ours on two threads and on one, where a process computes on one of two cores."""

    name: str
    network: Callable[[], Network]

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()

        def on(count: int) -> Any:
            with our_threads(count):
                return network.small(network.images[:1])

        ways = {TWO: partial(on, 2), ONE: partial(on, 1)}
        with pinned(2), busy_process():
            samples, singles = taken(ways, effort)
        more = {name: percentiles(values) for name, values in singles.items()}
        return timed("Two threads, one core free", self.name, samples, TWO, more)


@contextmanager
def busy_process() -> Iterator[None]:
    """Another process that computes all the time, on the processors of this one."""
    found = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        found.kill()
        found.wait()


def taken(ways: Mapping[str, Call], effort: Effort) -> tuple[Samples, Samples]:
    """Return the median seconds of each turn, and the seconds of every call."""
    turns = demo.time_in_turns(
        ways, effort.rounds, TURN_SECONDS / effort.haste, CALLS / effort.haste
    )
    return demo.medians(turns), demo.singles(turns)


def percentiles(seconds: list[float]) -> dict[str, str]:
    found = np.percentile(seconds, [95, 99])
    return {
        name: f"{1e3 * s:.3g} ms"
        for name, s in zip(("95 %", "99 %"), found, strict=True)
    }
