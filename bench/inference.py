"""Whole networks in int8 beside ONNX Runtime: the demo's classifier, MobileNetV2."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import mdtensor as md
from bench import mobilenet
from bench.harness import Bench, Found, Promise, Reading, Reason, Row
from bench.harness.machine import pinned
from bench.harness.reading import timed
from bench.harness.turns import Effort, Samples, rotated
from mdtensor.cli import demo_data, peer
from mdtensor.cli.demo import limited
from mdtensor.quant import threads as our_threads
from mdtensor.quant.model.model import load

OURS, FLOAT = "mdtensor int8", "mdtensor float"
PEERS = ("onnxruntime float", "onnxruntime int8")
#: Of one file: its weights as they are, and as unsigned codes.
EXACT = "onnxruntime int8, unsigned weights"
CLASSIFIER = "classifier, {} thread(s)"
MOBILENET = "MobileNetV2 1.0/{}, {} thread(s)"
BUSY, ONE, TWO = "classifier, beside a busy process", "1 thread", "2 threads"
#: Of its images; quick runs have the small ones, and few crops to calibrate on.
SMALL, SIZE = 64, 224
FEW = 4
THREADS = (1, 2)
#: Threads of a runtime spin for a while after its last call.
SETTLE_SECONDS = 0.02
#: Calls of one turn; the first ones find caches that the others have filled.
CALLS = 100
Call = Callable[[], Any]


@dataclass(frozen=True)
class Network:
    """A quantized network, what it is fed, and models for its peers, by their names.

    Args:
        floating: the network before, where it is timed too.
    """

    small: Any
    pixels: Any
    rivals: dict[str, Any]
    floating: Any = None

    def check(self) -> None:
        """The plan gives the bytes of dispatch, node by node."""
        feeds = {"x": md.asarray(self.pixels)}
        seen: dict[str, Any] = {}
        self.small.graph.run(feeds, lambda name, tensor: seen.update({name: tensor}))
        for name, tensor in self.small.plan().values(feeds).items():
            assert np.array_equal(tensor.buffer, seen[name].buffer), name


@cache
def classifier(crops: int | None = None) -> Network:
    """That of the demo, calibrated on so many crops of a page, or on all."""
    calibration, held_back = demo_data.crops()
    calibration = calibration[:crops]
    path = demo_data.classifier_path()
    network = load(path, demo_data.INPUT_SHAPE)
    small = network.quantize(network.calibrate(c.pixels for c in calibration))
    rival = peer.quantized(path, [crop.pixels for crop in calibration], "x")
    rivals = dict(zip(PEERS, (path, rival), strict=True))
    return Network(small, held_back[0].pixels, rivals, network)


@cache
def mobile(size: int) -> Network:
    small, model = mobilenet.quantized(size)
    rivals = {PEERS[1]: model, EXACT: mobilenet.with_unsigned_weights(model)}
    return Network(small, next(mobilenet.images(size, 9)), rivals)


@dataclass(frozen=True)
class Latency:
    """Calls of one network by several runtimes, each call timed."""

    name: str
    network: Callable[[], Network]
    threads: int
    table: str = "One image a call"

    def calls(self, network: Network) -> dict[str, Call]:
        pixels = network.pixels
        found: dict[str, Call] = {OURS: lambda: network.small(pixels)}
        if network.floating is not None:
            found[FLOAT] = lambda: network.floating(pixels)
        for name, model in network.rivals.items():
            session = peer.session(model, self.threads)
            found[name] = lambda session=session: session.run(None, {"x": pixels})
        return found

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        network.check()
        with pinned(self.threads), limited(self.threads), our_threads(self.threads):
            samples, singles = taken(self.calls(network), effort)
        more = {name: percentiles(values) for name, values in singles.items()}
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
                return network.small(network.pixels)

        calls = {TWO: partial(on, 2), ONE: partial(on, 1)}
        with pinned(2), busy_process():
            samples, singles = taken(calls, effort)
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


def taken(calls: dict[str, Call], effort: Effort) -> tuple[Samples, Samples]:
    """Median seconds of each turn, and the seconds of every call."""
    turns: Samples = {name: [] for name in calls}
    singles: Samples = {name: [] for name in calls}
    repeat = max(3, round(CALLS / effort.haste))
    for turn in range(effort.rounds):
        for name in rotated(list(calls), turn):
            time.sleep(SETTLE_SECONDS)
            seconds = [once(calls[name]) for _ in range(repeat)]
            turns[name].append(float(np.median(seconds)))
            singles[name] += seconds
    return turns, singles


def once(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def percentiles(seconds: list[float]) -> dict[str, str]:
    found = np.percentile(seconds, [95, 99])
    return {
        name: f"{1e3 * s:.3g} ms"
        for name, s in zip(("95 %", "99 %"), found, strict=True)
    }


@dataclass(frozen=True)
class Profile:
    """Where the time of a network goes, by operation and kernel; one thread."""

    name: str
    network: Callable[[], Network]

    def read(self, effort: Effort) -> list[Reading]:
        network = self.network()
        plan = network.small.plan()
        repeat = max(2, round(50 / effort.haste))
        with pinned(1):
            seconds = plan.profile({"x": md.asarray(network.pixels)}, repeat=repeat)
        groups: dict[str, list[float]] = {}
        for node in plan.nodes:
            if node.arithmetic == "integer":
                name = ", ".join((node.operation, node.kernel, node.runway))
                group = groups.setdefault(name, [0, 0.0, 0])
                group[0] += 1
                group[1] += seconds[node.node]
                group[2] += node.macs
        return [self.reading(name, *groups[name], groups) for name in groups]

    def reading(
        self, name: str, steps: float, spent: float, macs: float, groups: Any
    ) -> Reading:
        total = sum(group[1] for group in groups.values())
        more = {"steps": f"{steps}", "share": f"{spent / total:.1%}"}
        more["GMAC/s"] = f"{macs / spent / 1e9:.1f}" if macs and spent else ""
        table = "The same network, step by step, each timed alone"
        return Reading(table, self.name, name, spent, spent, spent, more=more)


def rows(quick: bool) -> Iterator[Row]:
    small = partial(classifier, FEW if quick else None)
    for threads in THREADS:
        yield Latency(CLASSIFIER.format(threads), small, threads)
    yield Profile("classifier, steps", small)
    yield Busy(BUSY, small)
    for size in (SMALL,) if quick else (SMALL, SIZE):
        for threads in THREADS:
            name = MOBILENET.format(size, threads)
            yield Latency(name, partial(mobile, size), threads)
        yield Profile(f"MobileNetV2 1.0/{size}, steps", partial(mobile, size))


def over_best(row: str, *names: str) -> Callable[[Found], float]:
    """Our ratio to the fastest of these peers."""
    return lambda found: max(found.ratio(row, name) for name in names)


BENCH = Bench(
    "Whole networks",
    rows,
    rounds=15,
    promises=[
        Promise(
            f"classifier: time over the faster peer, {threads} thread(s)",
            1.0,
            over_best(CLASSIFIER.format(threads), *PEERS),
        )
        for threads in THREADS
    ]
    + [
        Promise(
            f"MobileNetV2 1.0/224: time over ONNX Runtime's faster model, {threads} "
            "thread(s)",
            limit,
            over_best(MOBILENET.format(SIZE, threads), PEERS[1], EXACT),
        )
        for threads, limit in zip(THREADS, (0.7, 0.8), strict=True)
    ]
    + [
        # Never slower: the neighbour alone makes equal work differ by some percent.
        Promise(
            "two threads over one, beside a busy process",
            1.05,
            lambda found: found.ratio(BUSY, ONE),
        )
    ],
    reasons=[
        Reason(
            "without the 8-bit dot product its signed kernel saturates at int16",
            MOBILENET.format(SIZE, 1),
            PEERS[1],
        ),
        Reason("two threads notice losses, and leave the work to one", BUSY),
    ],
    notes=(
        "mdtensor float is the slowest of all: its tensors run on NumPy, operation by "
        "operation (decision 0002), where ONNX Runtime has fused float kernels."
    ),
)
