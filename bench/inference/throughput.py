"""Throughput: images a second, where several are given at once."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.harness import Reading
from bench.harness.machine import pinned
from bench.harness.ratio import interval
from bench.harness.reading import timed
from bench.harness.turns import Effort
from bench.inference.latency import taken
from bench.inference.networks import Network
from bench.inference.runtimes import FLOAT, OURS, calls, distances
from mdtensor.cli.demo import limit_threads
from mdtensor.quant import threads as our_threads


@dataclass(frozen=True)
class Throughput:
    """Images a second by several runtimes, so many images at once."""

    name: str
    network: Callable[[], Network]
    images: int
    threads: int
    table: str = "Throughput"

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        with (
            pinned(self.threads),
            limit_threads(self.threads),
            our_threads(self.threads),
        ):
            ways = calls(network, network.images[: self.images], self.threads)
            distances({name: call() for name, call in ways.items()})
            del ways[FLOAT]  # its time is in the table of single images
            samples, _ = taken(ways, effort.of(0.5))
        found = timed(self.table, self.name, samples, OURS, {})
        return [self._rate(one, samples[one.contender]) for one in found]

    def _rate(self, reading: Reading, seconds: list[float]) -> Reading:
        """A time as images a second; the ratio stays that of times."""
        rate = interval([self.images / s for s in seconds])
        numbers = rate.median, rate.low, rate.high
        return Reading(
            *(reading.table, reading.row, reading.contender),
            *numbers,
            unit="images/s",
            ratio=reading.ratio,
        )
