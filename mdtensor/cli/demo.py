"""The main job on real data: quantize a classifier of text direction and judge it.

It is calibrated on some crops of a scanned page and judged on others, beside ONNX
Runtime's float and int8 of the same model, made from the same calibration crops.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import quant
from mdtensor.cli import demo_data, peer, timing
from mdtensor.quant.model.model import Model, load

#: A direction is sure when the float network gives it more than this.
SURE = 0.8
ROUNDS, SECONDS = 7, 0.15
THREADS = (1, 2)


def run_demo(progress: Any) -> dict[str, Any]:
    """Everything `mdtensor demo` prints, as plain data."""
    path = demo_data.classifier_path()
    with progress:
        step = progress.add_task("reading the page", total=6)

        def next_step(text: str) -> None:
            progress.update(step, advance=1, description=text)

        calibration, held_back = demo_data.crops()
        network = load(path, demo_data.INPUT_SHAPE)
        next_step(f"calibrating on {len(calibration)} crops")
        seen = network.calibrate(crop.pixels for crop in calibration)
        small = network.quantize(seen)
        next_step("ONNX Runtime quantizes the same model")
        samples = [crop.pixels for crop in calibration]
        rival = peer.quantized(path, samples, next(iter(network.inputs)))
        next_step("compiling kernels (once; then they are on disk)")
        small(held_back[0].pixels)
        next_step(f"classifying {len(held_back)} held-back crops, four ways")
        outputs = classify(path, rival, network, small, held_back)
        next_step("timing, everyone in turn")
        times = measure(path, rival, network, small, held_back[0].pixels)
        next_step("done")
    return {
        "model": path.name,
        "calibration_crops": len(calibration),
        "agreement": judge(outputs, held_back),
        "bytes": sizes(path, rival, network, small),
        "times": times,
        "plan": summary(small),
        "which": resolutions(),
    }


def classify(
    path: Path, rival: bytes, network: Model, small: Model, crops: Sequence[Any]
) -> dict[str, Any]:
    """Probabilities [crops, 2] by each of the four."""
    name = next(iter(network.inputs))
    sessions = {
        "onnxruntime float": peer.session(path, 1),
        "onnxruntime int8": peer.session(rival, 1),
    }
    found = {
        "mdtensor float": [np.asarray(network(c.pixels)) for c in crops],
        "mdtensor int8": [np.asarray(small(c.pixels)) for c in crops],
    }
    for label, session in sessions.items():
        found[label] = [session.run(None, {name: c.pixels})[0] for c in crops]
    return {label: np.concatenate(rows) for label, rows in found.items()}


def judge(outputs: dict[str, Any], crops: Sequence[Any]) -> dict[str, Any]:
    """How often each says what the float network says, and what is true."""
    reference = outputs["onnxruntime float"]
    decided = reference.argmax(axis=1)
    sure = reference.max(axis=1) > SURE
    truth = np.array([int(crop.is_turned) for crop in crops])
    rows = {}
    for label, probabilities in outputs.items():
        same = probabilities.argmax(axis=1) == decided
        rows[label] = {
            "agree": int(same.sum()),
            "agree_where_sure": int((same & sure).sum()),
            "right": int((probabilities.argmax(axis=1) == truth).sum()),
            "largest_difference": float(np.abs(probabilities - reference).max()),
        }
    lines = len({crop.line for crop in crops})
    total = {"crops": len(crops), "lines": lines, "sure": int(sure.sum())}
    return {**total, "rows": rows}


def sizes(path: Path, rival: bytes, network: Model, small: Model) -> dict[str, int]:
    """Bytes of files and of weights (codes and their scales)."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "int8.onnx"
        small.save(target)
        written = target.stat().st_size
    return {
        "float file": path.stat().st_size,
        "onnxruntime int8 file": len(rival),
        "mdtensor int8 file": written,
        "float weights": network.weight_bytes,
        "int8 weights": small.weight_bytes,
    }


def measure(
    path: Path, rival: bytes, network: Model, small: Model, pixels: Any
) -> dict[str, Any]:
    """Milliseconds a call, and our int8 against the faster of the peer's two.

    Ours runs on one thread in both columns: its calls are shorter than what waking a
    second thread would save.
    """
    name = next(iter(network.inputs))
    table: dict[str, Any] = {}
    for threads in THREADS:
        contenders = {
            "mdtensor int8": lambda: small(pixels),
            "mdtensor float": lambda: network(pixels),
        }
        models = {"onnxruntime float": path, "onnxruntime int8": rival}
        for label, source in models.items():
            session = peer.session(source, threads)
            contenders[label] = lambda s=session: s.run(None, {name: pixels})
        times = timing.interleaved(contenders, ROUNDS, SECONDS)
        middle = timing.medians(times)
        best = min(models, key=lambda label: middle[label])
        table[str(threads)] = {
            "milliseconds": {label: 1e3 * s for label, s in middle.items()},
            "faster_peer": best,
            "ratio": timing.ratio(times, "mdtensor int8", best),
        }
    return table


def summary(small: Model) -> dict[str, Any]:
    """How many nodes run as integers, and what does not, with the reason."""
    nodes = small.plan().nodes
    return {
        "nodes": len(nodes),
        "integer": sum(n.arithmetic == "integer" for n in nodes),
        "macs": sum(n.macs for n in nodes),
        "runways": sorted({n.runway for n in nodes if n.arithmetic == "integer"}),
        "float": [
            {"operation": n.operation, "why": n.why}
            for n in nodes
            if n.arithmetic == "float"
        ],
    }


def resolutions() -> list[str]:
    """What conv2d resolves to for three choices of types."""
    choices = [
        (md.Float32Tensor, md.Float32Tensor, md.Float32Tensor),
        (quant.QUInt8Tensor, quant.QInt8Tensor, quant.QInt32Tensor),
        (md.Float32Tensor, quant.QInt8Tensor, type(None)),
    ]
    return [str(md.conv2d.select(*types)) for types in choices]
