"""The demo: quantize a classifier of text direction, and compare it on real data.

The model is calibrated on some crops of a scanned page and judged on other crops. The
baselines are the same model in ONNX Runtime, as float and as int8 from the same
calibration crops.

The module also times contenders in turns, so that a drifting machine affects all of
them alike. The benchmarks import these functions, because `bench` is not in the wheel.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.cli import demo_data
from mdtensor.cli.demo_ocr import read_page
from mdtensor.errors import ModelError
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.observers import MinMaxObserver

QUIET = 3
#: The first operator set with an axis of DequantizeLinear: scales per channel need it.
OPSET = 13


def runtime() -> Any:
    """Import onnxruntime, with its warnings off.

    Raises:
        ModelError: onnxruntime is not installed.
    """
    # Set before the import, which prints warnings of its own about the machine.
    os.environ.setdefault("ORT_LOGGING_LEVEL", str(QUIET))
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ModelError(
            "onnxruntime is not installed", "Use `pip install mdtensor[demo]`"
        ) from None
    onnxruntime.set_default_logger_severity(QUIET)
    return onnxruntime


def start_session(model: Path | bytes, threads: int, optimize: bool = True) -> Any:
    """Start an inference session on the CPU with this many threads."""
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    # Parallel branches would use more threads than the comparison allows.
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    if not optimize:
        level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def quantize_by_tool(
    model: Path, samples: Sequence[Any], name: str, **options: Any
) -> bytes:
    """Quantize a model with ONNX Runtime's `quantize_static`; return the ONNX file.

    The settings are the tool's own for x86 with VNNI: u8 activations, s8 weights per
    channel. `options` of the tool replace them.
    """
    runtime()
    from onnxruntime.quantization import QuantType, quantize_static

    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    options = {"per_channel": True, **types, **options}
    with tempfile.TemporaryDirectory() as folder, _silence():
        target = Path(folder) / "int8.onnx"
        prepared = _preprocess(model, Path(folder))
        quantize_static(prepared, target, _reader(samples, name), **options)
        return target.read_bytes()


def _preprocess(model: Path, folder: Path) -> Path:
    """Prepare a model as the guide of the tool requires."""
    import onnx
    import onnx.version_converter
    from onnxruntime.quantization.shape_inference import quant_pre_process

    raised, prepared = folder / "raised.onnx", folder / "prepared.onnx"
    # Older operator sets cannot store scales per channel.
    onnx.save(onnx.version_converter.convert_version(onnx.load(model), OPSET), raised)
    quant_pre_process(raised, prepared, skip_symbolic_shape=True)
    return prepared


def _reader(samples: Sequence[Any], name: str) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    # The base class exists only once onnxruntime is imported.
    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Any] = iter(samples)

        def get_next(self) -> Any:
            sample = next(self.left, None)
            return None if sample is None else {name: sample}

    return Samples()


@contextmanager
def _silence() -> Iterator[None]:
    """Silence ONNX Runtime's quantization tool: its warnings are about other models."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


Call = Callable[[], object]
#: Seconds of each call by contender, one list for each turn.
Turns = dict[str, list[list[float]]]
#: Least calls of a turn: the first one finds caches that the other contenders filled.
FEWEST = 3
#: Seconds of one look at the threads, and the longest wait for them.
LOOK_SECONDS, MOST_SECONDS = 0.01, 1.0


def time_in_turns(
    contenders: Mapping[str, Call], rounds: int, seconds: float, most: float = inf
) -> Turns:
    """Time each call of each contender.

    Args:
        contenders: the calls, by name.
        rounds: the number of turns of each. Each round starts with another contender.
        seconds: the length of a turn, which has three calls at least.
        most: the largest number of calls of a turn.
    """
    names = list(contenders)
    counts = {name: _count(call, seconds, most) for name, call in contenders.items()}
    found: Turns = {name: [] for name in names}
    for turn in range(rounds):
        # Another contender begins each round, so that none always follows the same one.
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            settle()
            found[name].append([once(contenders[name]) for _ in range(counts[name])])
    return found


def settle(clock: Any = time) -> None:
    """Wait until no thread of this process computes, or for a second.

    Args:
        clock: the functions of `time`, for tests.
    """
    # Threads of a runtime spin after its last call, 40 ms in ONNX Runtime and 110 ms in
    # OpenBLAS, and would take the processors of the next contender.
    end = clock.perf_counter() + MOST_SECONDS
    while clock.perf_counter() < end:
        before = clock.process_time()
        clock.sleep(LOOK_SECONDS)
        if clock.process_time() - before < LOOK_SECONDS / 10:
            return


def _count(call: Call, seconds: float, most: float) -> int:
    """Return the number of calls of a turn."""
    # The first call may compile or load, so the second one is timed.
    once(call)
    return max(FEWEST, round(min(most, seconds / once(call))))


def once(call: Call) -> float:
    """Return the seconds of one call."""
    # `perf_counter`, because the clock of the wall may be set while it runs.
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(turns: Turns) -> dict[str, list[float]]:
    """Return the median seconds of a call in each turn."""
    return {name: [*map(statistics.median, own)] for name, own in turns.items()}


def singles(turns: Turns) -> dict[str, list[float]]:
    """Return the seconds of the calls of all turns."""
    return {name: [*chain.from_iterable(own)] for name, own in turns.items()}


def ratio(times: Mapping[str, list[float]], one: str, other: str) -> float:
    """Return the median of the ratios, round by round."""
    # Round by round, so that a slow phase of the machine meets both contenders.
    pairs = zip(times[one], times[other], strict=True)
    return statistics.median(a / b for a, b in pairs)


#: Least probability by the float network of a sure direction.
SURE = 0.8
ROUNDS, SECONDS = 7, 0.15
#: The pages of characters that calibrate the networks for OCR.
PAGES = (0, 1)
THREADS = (1, 2)
OURS, FLOAT_PEER, INT8_PEER = "mdtensor int8", "onnxruntime float", "onnxruntime int8"


@dataclass(frozen=True)
class Contest:
    """One network, run in four ways.

    Args:
        path: the float ONNX file.
        network: the float network in mdtensor.
        small: the quantized network in mdtensor.
        rival: the quantized ONNX file from ONNX Runtime's tool.
    """

    path: Path
    network: Model
    small: Model
    rival: bytes

    def contenders(self, threads: int) -> dict[str, Callable[[Any], Any]]:
        """Return functions from pixels to probabilities, by name."""
        # The classifier has one input; its name differs between exports.
        name = next(iter(self.network.inputs))
        found: dict[str, Callable[[Any], Any]] = {
            "mdtensor float": lambda pixels: np.asarray(self.network(pixels)),
            OURS: lambda pixels: np.asarray(self.small(pixels)),
        }
        for label, model in ((FLOAT_PEER, self.path), (INT8_PEER, self.rival)):
            session = start_session(model, threads)
            found[label] = partial(_first_output, session, name)
        return found


def _first_output(session: Any, name: str, pixels: Any) -> Any:
    return session.run(None, {name: pixels})[0]


def run_demo(progress: Any) -> dict[str, Any]:
    """Run the demo and return its results as plain data.

    Raises:
        ModelError: a package of the extra `demo` is not installed.
    """
    # First of all: a missing package must not end a demo that has run for a minute.
    demo_data.check_packages()
    calibration, held_back = demo_data.crops()
    with progress:
        task = progress.add_task("reading the model", total=6)

        def begin(text: str) -> None:
            progress.update(task, advance=1, description=text)
            # Outside a terminal the bar is hidden, and lines on stderr take its place.
            if progress.disable:
                print(text, file=sys.stderr, flush=True)

        contest = prepare(calibration, begin)
        begin("compiling int8 kernels (only once; they are cached on disk)")
        # Compilation must not count as time of the model.
        contest.small(held_back[0].pixels)
        begin(f"classifying {len(held_back)} held-back crops, four ways")
        verdict = judge(classify(contest, held_back), held_back)
        begin("timing, all in turns")
        times = measure(contest, held_back[0].pixels)
        begin("reading the page with three int8 networks")
        # The application in the documentation observes longer, on twice the pages.
        page = read_page(PAGES, MinMaxObserver)
    return {
        "model": contest.path.name,
        "calibration_crops": len(calibration),
        "agreement": verdict,
        "bytes": sizes(contest),
        "times": times,
        "plan": summary(contest.small),
        "which": resolutions(),
        "page": {"text": page["text"], "wrong_characters": page["rates"]},
    }


def prepare(calibration: Sequence[Any], begin: Callable[[str], None]) -> Contest:
    """Quantize the model with mdtensor and ONNX Runtime, from the same crops."""
    samples = [crop.pixels for crop in calibration]
    path = demo_data.classifier_path()
    network = load(path, demo_data.INPUT_SHAPE)
    begin(f"calibrating on {len(samples)} crops (the first time compiles kernels)")
    small = network.quantize(network.calibrate(samples))
    begin("ONNX Runtime quantizes the same model")
    rival = quantize_by_tool(path, samples, next(iter(network.inputs)))
    return Contest(path, network, small, rival)


def classify(contest: Contest, crops: Sequence[Any]) -> dict[str, Any]:
    """Return the probabilities [crops, 2] of each of the four runs, by name."""
    return {
        label: np.concatenate([call(crop.pixels) for crop in crops])
        for label, call in contest.contenders(1).items()
    }


def judge(outputs: dict[str, Any], crops: Sequence[Any]) -> dict[str, Any]:
    """Count how often each run agrees with the float network and is right."""
    reference = outputs[FLOAT_PEER]
    decided = reference.argmax(axis=1)
    # Where the float network hesitates, a different answer of int8 says little.
    sure = reference.max(axis=1) > SURE
    truth = np.array([int(crop.is_turned) for crop in crops])
    rows = {}
    for label, probabilities in outputs.items():
        chosen = probabilities.argmax(axis=1)
        rows[label] = {
            "agree": int((chosen == decided).sum()),
            "agree_where_sure": int(((chosen == decided) & sure).sum()),
            "right": int((chosen == truth).sum()),
            "largest_difference": float(np.abs(probabilities - reference).max()),
        }
    lines = len({crop.line for crop in crops})
    total = {"crops": len(crops), "lines": lines, "sure": int(sure.sum())}
    return {**total, "rows": rows}


def sizes(contest: Contest) -> dict[str, int]:
    """Return the bytes of files and of weights, scales included."""
    # Only a written file has the size of a file; the user's folder stays clean.
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "int8.onnx"
        contest.small.save(target)
        written = target.stat().st_size
    return {
        "float file": contest.path.stat().st_size,
        "onnxruntime int8 file": len(contest.rival),
        "mdtensor int8 file": written,
        "float weights": contest.network.weight_bytes,
        "int8 weights": contest.small.weight_bytes,
    }


def measure(contest: Contest, pixels: object) -> dict[str, Any]:
    """Return the milliseconds per call, and our int8 time over the faster baseline's.

    All contenders get the same number of threads. mdtensor uses the second thread only
    in steps that are long enough, as its plan says.
    """
    table: dict[str, Any] = {}
    for threads in THREADS:
        calls = contest.contenders(threads)
        # NumPy's matrix products have threads of their own, which the other setting
        # does not reach.
        with limit_threads(threads), quant.threads(threads):
            bound = {name: partial(call, pixels) for name, call in calls.items()}
            times = medians(time_in_turns(bound, ROUNDS, SECONDS))
        middle = {name: median(seconds) for name, seconds in times.items()}
        # The stricter comparison: against whichever of the two is faster here.
        best = min((FLOAT_PEER, INT8_PEER), key=lambda label: middle[label])
        table[str(threads)] = {
            "milliseconds": {label: 1e3 * s for label, s in middle.items()},
            "faster_peer": best,
            "ratio": ratio(times, OURS, best),
        }
    return table


def limit_threads(threads: int) -> Any:
    """Limit the threads of NumPy's matrix products.

    Raises:
        ModelError: threadpoolctl is not installed.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        raise ModelError(
            "threadpoolctl is not installed", "Use `pip install mdtensor[demo]`"
        ) from None
    return threadpool_limits(limits=threads)


def summary(small: Model) -> dict[str, Any]:
    """Count the nodes that run as integers, and list the float ones with reasons."""
    nodes = small.plan().nodes
    integer = [n for n in nodes if n.arithmetic == "integer"]
    return {
        "nodes": len(nodes),
        "integer": len(integer),
        "views": sum(n.arithmetic == "view" for n in nodes),
        "macs": sum(n.macs for n in nodes),
        "isas": sorted({n.isa for n in integer}),
        "float": [
            {"operation": n.operation, "why": n.why} for n in small.plan().float_nodes
        ],
    }


def resolutions() -> list[dict[str, str]]:
    """Return the method of conv2d for three choices of types, and why it runs."""
    choices = [
        (md.Float32Tensor, md.Float32Tensor, md.Float32Tensor),
        (quant.QUInt8Tensor, quant.QInt8Tensor, quant.QInt32Tensor),
        (md.Float32Tensor, quant.QInt8Tensor, type(None)),
    ]
    found = [md.which(md.conv2d, *types) for types in choices]
    return [
        {"selected": f"{s.line}  {s.kernel}, {s.isa}", "why": s.reason} for s in found
    ]
