"""The main job on real data: quantize a classifier of text direction and judge it.

It is calibrated on some crops of a scanned page and judged on others, beside ONNX
Runtime's float and int8 of the same model, made from the same calibration crops.
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
from mdtensor.errors import ModelError
from mdtensor.quant.model.model import Model, load

# ONNX Runtime on the same model: float, and int8 by its own quantization tool.

QUIET = 3
#: The first operator set in which DequantizeLinear has an axis.
OPSET = 13


def runtime() -> Any:
    """The onnxruntime package.

    Raises:
        ModelError: it is not installed.
    """
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
    """An inference session on the CPU with this many threads."""
    ort = runtime()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    if not optimize:
        level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    source = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def quantized(model: Path, samples: Sequence[Any], name: str, **options: Any) -> bytes:
    """The model as `quantize_static` writes it: u8 activations, s8 per channel.

    These are its settings for x86 with VNNI; the samples are the caller's. Options of
    the tool take the place of these.
    """
    runtime()
    from onnxruntime.quantization import QuantType, quantize_static

    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    options = {"per_channel": True, **types, **options}
    with tempfile.TemporaryDirectory() as folder, _silenced():
        target = Path(folder) / "int8.onnx"
        prepared = _preprocessed(model, Path(folder))
        quantize_static(prepared, target, _reader(samples, name), **options)
        return target.read_bytes()


def _preprocessed(model: Path, folder: Path) -> Path:
    """As its guide asks: scales per channel need a newer operator set."""
    import onnx
    import onnx.version_converter
    from onnxruntime.quantization.shape_inference import quant_pre_process

    raised, prepared = folder / "raised.onnx", folder / "prepared.onnx"
    onnx.save(onnx.version_converter.convert_version(onnx.load(model), OPSET), raised)
    quant_pre_process(raised, prepared, skip_symbolic_shape=True)
    return prepared


def _reader(samples: Sequence[Any], name: str) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Any] = iter(samples)

        def get_next(self) -> Any:
            sample = next(self.left, None)
            return None if sample is None else {name: sample}

    return Samples()


@contextmanager
def _silenced() -> Iterator[None]:
    """Without the tool's advice, which is about other models."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


# Times of single calls: contenders take turns, so that a drifting machine hits all.
#
# The demo and `bench.inference` measure with it; `bench` is not part of the wheel.

Call = Callable[[], object]
#: Seconds of each call by contender, one list for each turn.
Turns = dict[str, list[list[float]]]
#: The first calls of a turn find caches that the others filled, so one is not enough.
FEWEST = 3
#: How long to look whether threads compute, and to wait for them at most.
LOOK_SECONDS, MOST_SECONDS = 0.01, 1.0


def interleaved(
    contenders: Mapping[str, Call], rounds: int, seconds: float, most: float = inf
) -> Turns:
    """Time each call of each contender.

    Args:
        contenders: what to call, by name.
        rounds: how many turns each has. The first one changes from round to round.
        seconds: the length of a turn; it has three calls at least.
        most: how many calls a turn has at most.
    """
    names = list(contenders)
    counts = {name: _count(call, seconds, most) for name, call in contenders.items()}
    found: Turns = {name: [] for name in names}
    for turn in range(rounds):
        first = turn % max(1, len(names))
        for name in names[first:] + names[:first]:
            settle()
            found[name].append([once(contenders[name]) for _ in range(counts[name])])
    return found


def settle() -> None:
    """Wait until no thread of this process computes, or for a second.

    Threads of a runtime spin after its last call, for 40 ms in ONNX Runtime and for 110
    in OpenBLAS: the next contender would lack their processors.
    """
    end = time.perf_counter() + MOST_SECONDS
    while time.perf_counter() < end:
        before = time.process_time()
        time.sleep(LOOK_SECONDS)
        if time.process_time() - before < LOOK_SECONDS / 10:
            return


def _count(call: Call, seconds: float, most: float) -> int:
    """Return how many calls make a turn, by the time of a second call."""
    once(call)
    return max(FEWEST, round(min(most, seconds / once(call))))


def once(call: Call) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(turns: Turns) -> dict[str, list[float]]:
    """Return the median call of each turn."""
    return {name: [*map(statistics.median, own)] for name, own in turns.items()}


def singles(turns: Turns) -> dict[str, list[float]]:
    """Return the calls of all turns."""
    return {name: [*chain.from_iterable(own)] for name, own in turns.items()}


def ratio(times: Mapping[str, list[float]], one: str, other: str) -> float:
    """Return the median of the ratios, round by round."""
    pairs = zip(times[one], times[other], strict=True)
    return statistics.median(a / b for a, b in pairs)


#: A direction is sure when the float network gives it more than this.
SURE = 0.8
ROUNDS, SECONDS = 7, 0.15
THREADS = (1, 2)
OURS, FLOAT_PEER, INT8_PEER = "mdtensor int8", "onnxruntime float", "onnxruntime int8"


@dataclass(frozen=True)
class Contest:
    """One network, four ways.

    Args:
        path: the float ONNX file.
        network, small: it, read by mdtensor, and quantized.
        rival: the file that ONNX Runtime's tool made of it.
    """

    path: Path
    network: Model
    small: Model
    rival: bytes

    def contenders(self, threads: int) -> dict[str, Callable[[Any], Any]]:
        """Pixels to probabilities, by name; the peer on this many threads."""
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
    """Everything `mdtensor demo` prints, as plain data.

    Raises:
        ModelError: a package of the extra `demo` is not installed.
    """
    demo_data.check_packages()
    calibration, held_back = demo_data.crops()
    with progress:
        task = progress.add_task("reading the model", total=5)

        def begin(text: str) -> None:
            progress.update(task, advance=1, description=text)
            if progress.disable:
                print(text, file=sys.stderr, flush=True)

        contest = prepare(calibration, begin)
        begin("compiling kernels (once; then they are on disk)")
        contest.small(held_back[0].pixels)
        begin(f"classifying {len(held_back)} held-back crops, four ways")
        verdict = judge(classify(contest, held_back), held_back)
        begin("timing, everyone in turn")
        times = measure(contest, held_back[0].pixels)
    return {
        "model": contest.path.name,
        "calibration_crops": len(calibration),
        "agreement": verdict,
        "bytes": sizes(contest),
        "times": times,
        "plan": summary(contest.small),
        "which": resolutions(),
    }


def prepare(calibration: Sequence[Any], begin: Callable[[str], None]) -> Contest:
    """Both quantizations, from the same crops."""
    samples = [crop.pixels for crop in calibration]
    path = demo_data.classifier_path()
    network = load(path, demo_data.INPUT_SHAPE)
    begin(f"calibrating on {len(samples)} crops")
    small = network.quantize(network.calibrate(samples))
    begin("ONNX Runtime quantizes the same model")
    rival = quantized(path, samples, next(iter(network.inputs)))
    return Contest(path, network, small, rival)


def classify(contest: Contest, crops: Sequence[Any]) -> dict[str, Any]:
    """Probabilities [crops, 2] by each of the four."""
    return {
        label: np.concatenate([call(crop.pixels) for crop in crops])
        for label, call in contest.contenders(1).items()
    }


def judge(outputs: dict[str, Any], crops: Sequence[Any]) -> dict[str, Any]:
    """How often each says what the float network says, and what is true."""
    reference = outputs[FLOAT_PEER]
    decided = reference.argmax(axis=1)
    sure = reference.max(axis=1) > SURE
    truth = np.array([int(crop.is_turned) for crop in crops])
    rows = {}
    for label, probabilities in outputs.items():
        said = probabilities.argmax(axis=1)
        rows[label] = {
            "agree": int((said == decided).sum()),
            "agree_where_sure": int(((said == decided) & sure).sum()),
            "right": int((said == truth).sum()),
            "largest_difference": float(np.abs(probabilities - reference).max()),
        }
    lines = len({crop.line for crop in crops})
    total = {"crops": len(crops), "lines": lines, "sure": int(sure.sum())}
    return {**total, "rows": rows}


def sizes(contest: Contest) -> dict[str, int]:
    """Bytes of files and of weights (codes and their scales)."""
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


def measure(contest: Contest, pixels: Any) -> dict[str, Any]:
    """Milliseconds a call, and our int8 against the faster of the peer's two.

    All get as many threads; of ours the second has a part of those steps that are long
    enough for it, as the plan says.
    """
    table: dict[str, Any] = {}
    for threads in THREADS:
        calls = contest.contenders(threads)
        with limited(threads), quant.threads(threads):
            bound = {name: partial(call, pixels) for name, call in calls.items()}
            times = medians(interleaved(bound, ROUNDS, SECONDS))
        middle = {name: median(seconds) for name, seconds in times.items()}
        best = min((FLOAT_PEER, INT8_PEER), key=lambda label: middle[label])
        table[str(threads)] = {
            "milliseconds": {label: 1e3 * s for label, s in middle.items()},
            "faster_peer": best,
            "ratio": ratio(times, OURS, best),
        }
    return table


def limited(threads: int) -> Any:
    """NumPy's products on this many threads.

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
    """How many nodes run as integers, and what does not, with the reason."""
    nodes = small.plan().nodes
    integer = [n for n in nodes if n.arithmetic == "integer"]
    return {
        "nodes": len(nodes),
        "integer": len(integer),
        "views": sum(n.arithmetic == "view" for n in nodes),
        "macs": sum(n.macs for n in nodes),
        "runways": sorted({n.runway for n in integer}),
        "float": [
            {"operation": n.operation, "why": n.why} for n in small.plan().float_nodes
        ],
    }


def resolutions() -> list[dict[str, str]]:
    """What conv2d resolves to for three choices of types, and why."""
    choices = [
        (md.Float32Tensor, md.Float32Tensor, md.Float32Tensor),
        (quant.QUInt8Tensor, quant.QInt8Tensor, quant.QInt32Tensor),
        (md.Float32Tensor, quant.QInt8Tensor, type(None)),
    ]
    found = [md.which(md.conv2d, *types) for types in choices]
    return [
        {"selected": f"{s.line}  {s.kernel}, {s.isa}", "why": s.reason} for s in found
    ]
