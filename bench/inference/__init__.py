"""Whole networks in int8 beside the runtimes that users would pick instead."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.harness import Bench, Found, Promise, Reason, Row
from bench.inference.latency import ONE, Busy, Latency
from bench.inference.networks import classifier, mobile
from bench.inference.runtimes import ORT_EXACT, ORT_FLOAT, ORT_INT8
from bench.inference.steps import Profile

CLASSIFIER = "classifier, {} thread(s)"
MOBILENET = "MobileNetV2 1.0/{}, {} thread(s)"
BUSY = "classifier, beside a busy process"
#: Of images; quick runs have the small ones, and few crops to calibrate on.
SMALL, SIZES = 64, (64, 160, 224)
FEW = 4
THREADS = (1, 2)


def rows(quick: bool) -> Iterator[Row]:
    small = partial(classifier, FEW if quick else None)
    for threads in THREADS:
        yield Latency(CLASSIFIER.format(threads), small, threads)
    yield Profile("classifier, steps", small)
    yield Busy(BUSY, small)
    for size in (SMALL,) if quick else SIZES:
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
            over_best(CLASSIFIER.format(threads), ORT_FLOAT, ORT_INT8),
        )
        for threads in THREADS
    ]
    + [
        Promise(
            f"MobileNetV2 1.0/224: time over ONNX Runtime's faster model, {threads} "
            "thread(s)",
            limit,
            over_best(MOBILENET.format(224, threads), ORT_INT8, ORT_EXACT),
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
            MOBILENET.format(224, 1),
            ORT_INT8,
        ),
        Reason("two threads notice losses, and leave the work to one", BUSY),
    ],
    notes=(
        "mdtensor float is the slowest of all: its tensors run on NumPy, operation by "
        "operation (decision 0002), where ONNX Runtime has fused float kernels."
    ),
)
