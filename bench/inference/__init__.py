"""Whole networks in int8 beside the runtimes that users would pick instead."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.harness import Bench, Found, Promise, Reason, Row
from bench.inference.calibration import calibrations
from bench.inference.files import size
from bench.inference.half import Half
from bench.inference.latency import ONE, Busy, Latency
from bench.inference.networks import MANY, Network, classifier, mobile
from bench.inference.ocr import detector, recognizer
from bench.inference.processes import First, Memory
from bench.inference.runtimes import FLOAT, ORT_EXACT, ORT_FLOAT, ORT_INT8
from bench.inference.steps import Profile
from bench.inference.throughput import Throughput
from bench.inference.tool_files import tool_files
from mdtensor.kernels.cpu import isa

Make = Callable[[], Network]
CLASSIFIER = "classifier, {} thread(s)"
MOBILENET = "MobileNetV2 1.0/{}, {} thread(s)"
HALF, HALVED = "{} in float16", ("classifier", "MobileNetV2 1.0/224")
BUSY = "classifier, next to a busy process"
#: Of images; quick runs have the small ones, and few crops to calibrate on.
SMALL, SIDES = 64, (64, 160, 224)
FEW = 4
THREADS = (1, 2)
#: Why ONNX Runtime's default kernels may be faster.
BEHIND = "without the 8-bit dot product its signed kernel saturates at int16"
if isa.ISA == "vnni":
    BEHIND = "why is not known"


def rows(quick: bool) -> Iterator[Row]:
    """Quick ones have the smallest networks, and fewer rows of each kind."""
    small = partial(classifier, FEW if quick else None)
    sides = (SMALL,) if quick else SIDES
    images = {side: partial(mobile, side) for side in sides}
    named = {"classifier": small}
    named |= {f"MobileNetV2 1.0/{side}": images[side] for side in sides}
    if not quick:
        named |= {"text detector": detector, "text recognizer": recognizer}
    for name, network in named.items():
        for threads in THREADS:
            yield Latency(f"{name}, {threads} thread(s)", network, threads)
        yield Profile(f"{name}, steps", network)
    yield from tool_files(quick)
    yield from calibrations("classifier")
    for name in ("classifier",) if quick else HALVED:
        yield Half(HALF.format(name), named[name])
    yield Busy(BUSY, small)
    yield from throughputs("classifier", small, quick)
    yield from once("classifier", small)
    if not quick:
        yield from throughputs("MobileNetV2 1.0/160", images[160], quick)
        yield from once("MobileNetV2 1.0/224", images[224])
        uncompiled = "classifier, first result, nothing compiled"
        yield First(uncompiled, small, is_compiled=False)


def once(name: str, network: Make) -> Iterator[Row]:
    """What is asked of a file: the time of its first image, memory, size."""
    yield First(f"{name}, first result", network)
    yield Memory(f"{name}, memory", network)
    yield size(f"{name}, file", network)


def throughputs(name: str, network: Make, quick: bool) -> Iterator[Row]:
    for images in (MANY,) if quick else (1, MANY):
        for threads in THREADS[:1] if quick else THREADS:
            label = f"{name}, {images} at once, {threads} thread(s)"
            yield Throughput(label, network, images, threads)


def over_best(row: str, *names: str) -> Callable[[Found], float]:
    """Our ratio to the fastest of these peers."""
    return lambda found: max(found.ratio(row, name) for name in names)


def of_floats(row: str) -> Callable[[Found], float]:
    """Our ratio to ONNX Runtime, both for the float network."""
    return lambda found: found.ratio(row, ORT_FLOAT) / found.ratio(row, FLOAT)


#: The float networks and their limits on one thread; on two it is 1.
FLOAT_LIMITS = {
    "classifier": 0.6,
    "MobileNetV2 1.0/160": 0.9,
    "MobileNetV2 1.0/224": 0.9,
    "text detector": 0.9,
    "text recognizer": 0.9,
}


BENCH = Bench(
    "Whole networks",
    rows,
    rounds=11,
    promises=[
        Promise(
            f"classifier, relative to the faster peer, {threads} thread(s)",
            0.8,
            over_best(CLASSIFIER.format(threads), ORT_FLOAT, ORT_INT8),
        )
        for threads in THREADS
    ]
    + [
        Promise(
            "MobileNetV2 1.0/224, relative to ONNX Runtime's faster model, "
            f"{threads} thread(s)",
            limit,
            over_best(MOBILENET.format(224, threads), ORT_INT8, ORT_EXACT),
        )
        for threads, limit in zip(THREADS, (0.7, 0.8), strict=True)
    ]
    + [
        Promise(
            f"{name} in float, relative to ONNX Runtime in float, {threads} thread(s)",
            limit if threads == 1 else 1.0,
            of_floats(f"{name}, {threads} thread(s)"),
        )
        for name, limit in FLOAT_LIMITS.items()
        for threads in THREADS
    ]
    + [
        Promise(
            f"{name} in float16, relative to our float32",
            1.1,
            partial(Found.ratio, row=HALF.format(name), rival=FLOAT),
        )
        for name in HALVED
    ]
    + [
        Promise(
            "classifier, time of calibration and quantization, relative to ONNX "
            "Runtime's tool",
            1.5,
            partial(Found.ratio, row="classifier, calibration", rival=ORT_INT8),
        )
    ]
    + [
        # Never slower: the neighbour alone makes equal work differ by some percent.
        Promise(
            "two threads relative to one, next to a busy process",
            1.05,
            lambda found: found.ratio(BUSY, ONE),
        )
    ],
    reasons=[
        Reason(BEHIND, "MobileNetV2 1.0/[12]*thread(s)", ORT_INT8),
        Reason(
            "softmax and products of activations run in NumPy, on one thread, between "
            "compiled parts",
            "text recognizer, *",
        ),
        Reason(
            "the short steps between the products of the network run on one thread",
            "text detector, *",
        ),
        Reason(
            "the layers are too small for a second thread to pay off (decision 0031)",
            "MobileNetV2 1.0/64, 2 thread(s)",
        ),
        Reason(
            "mdtensor notices that the second thread does not help, and uses one", BUSY
        ),
        Reason(
            "half of the time goes to imports, also of numba and LLVM if there is no "
            "library of kernels; the rest packs weights and builds tables",
            "*, first result",
        ),
        Reason(
            "without a library the kernels are compiled first, once for each machine",
            "*, nothing compiled",
        ),
        Reason(
            "inputs and outputs are cast, and each node rounds its result "
            "(decision 0081)",
            "* in float16",
        ),
        Reason(
            "types and methods of all operations are in the process, and without a "
            "library of kernels numba and LLVM, too",
            "*, memory",
        ),
    ],
    notes=(
        "**Files.** LiteRT runs a .tflite file with the same codes, scales and biases. "
        "PyTorch runs the same graphs, eagerly. For MobileNetV2 all runtimes do the "
        "same work, except kernels that saturate at int16; the other networks were "
        "quantized by ONNX Runtime's own tool for ONNX Runtime. A runtime is left out "
        "if it, or our exporter for it, lacks an operation; the benchmark prints "
        "which.\n"
        "\n"
        "**Columns.** `off by` is the largest difference from mdtensor's result (float "
        "or int8), divided by the largest element of that result.\n"
        "\n"
        "**Times.** A turn begins when all threads of the process are idle. Threads of "
        "ONNX Runtime spin for 40 ms after a call and threads of OpenBLAS for 110 ms, "
        "which would slow down the next contender. PyTorch takes longer on two threads "
        "than on one; with another installation on this machine it took 4.2 ms for the "
        "classifier and 16 ms for MobileNetV2 1.0/224. The reason is not known."
    ),
)
