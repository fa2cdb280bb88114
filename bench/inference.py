"""Whole networks in int8 beside ONNX Runtime: the demo's classifier, MobileNetV2."""

import time
from collections.abc import Callable, Iterator
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
from mdtensor.quant.model.model import load

OURS, FLOAT = "mdtensor int8", "mdtensor float"
PEERS = ("onnxruntime float", "onnxruntime int8")
#: Of one file: its weights as they are, and as unsigned codes.
EXACT = "onnxruntime int8, unsigned weights"
CLASSIFIER = "classifier, {} thread(s)"
MOBILENET = "MobileNetV2 1.0/{}, 1 thread"
#: Of its images; quick runs have the small ones.
SMALL, SIZE = 64, 224
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
def classifier() -> Network:
    calibration, held_back = demo_data.crops()
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
        with pinned(self.threads), limited(self.threads):
            samples, singles = taken(self.calls(network), effort)
        more = {name: percentiles(values) for name, values in singles.items()}
        return timed("One image a call", self.name, samples, OURS, more)


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
            if node.node in seconds:
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
    for threads in THREADS:
        yield Latency(CLASSIFIER.format(threads), classifier, threads)
    yield Profile("classifier, steps", classifier)
    for size in (SMALL,) if quick else (SMALL, SIZE):
        yield Latency(MOBILENET.format(size), partial(mobile, size), 1)
        yield Profile(f"MobileNetV2 1.0/{size}, steps", partial(mobile, size))


def over_best(threads: int) -> Callable[[Found], float]:
    """Our ratio to the faster peer."""
    row = CLASSIFIER.format(threads)
    return lambda found: max(found.ratio(row, name) for name in PEERS)


BENCH = Bench(
    "Whole networks",
    rows,
    rounds=15,
    promises=[
        Promise(
            f"classifier: time over the faster peer, {threads} thread(s)",
            1.0,
            over_best(threads),
        )
        for threads in THREADS
    ]
    + [
        Promise(
            "MobileNetV2 1.0/224: time over ONNX Runtime's faster model, 1 thread",
            0.7,
            lambda found: max(
                found.ratio(MOBILENET.format(SIZE), name) for name in (PEERS[1], EXACT)
            ),
        )
    ],
    reasons=[
        Reason(
            "without the 8-bit dot product its signed kernel saturates at int16",
            MOBILENET.format(SIZE),
            PEERS[1],
        )
    ],
    notes=(
        "mdtensor int8 runs on one thread in all rows. mdtensor float is the slowest "
        "of all: its tensors run on NumPy, operation by operation (decision 0002), "
        "where ONNX Runtime has fused float kernels."
    ),
)
