"""Files of the demo's classifier as ONNX Runtime's tool writes them, run by both.

One file is read by both: the same codes and grids. ONNX Runtime's kernel for signed
weights saturates at int16 on a CPU without an 8-bit dot product.
"""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import Contender, Race, Row
from bench.harness.agreement import Disagreement
from bench.inference.runtimes import ORT_INT8, OURS
from mdtensor.cli import demo, demo_data
from mdtensor.quant import threads
from mdtensor.quant.model.load import load

#: Crops of a page that the tool calibrates on.
CROPS = 8
#: (type of activations, of weights, format), as the tool calls them.
FORMS = (
    ("QUInt8", "QInt8", "QDQ"),
    ("QUInt8", "QUInt8", "QDQ"),
    ("QUInt8", "QInt8", "QOperator"),
    ("QUInt8", "QUInt8", "QOperator"),
    ("QInt8", "QInt8", "QOperator"),
)


def tool_files(quick: bool) -> Iterator[Row]:
    for form in FORMS[:1] if quick else FORMS:
        yield Race(
            f"classifier, {', '.join(form)}",
            partial(contenders, *form),
            one_class,
            "Files that ONNX Runtime's tool quantized",
            OURS,
        )


def contenders(activations: str, weights: str, form: str) -> list[Contender]:
    from onnxruntime.quantization import QuantFormat, QuantType

    calibration, held_back = demo_data.crops()
    samples = [crop.pixels for crop in calibration[:CROPS]]
    x = held_back[0].pixels
    options = {
        "activation_type": QuantType[activations],
        "weight_type": QuantType[weights],
        "quant_format": QuantFormat[form],
        "per_channel": False,
    }
    file = demo.quantize_by_tool(demo_data.classifier_path(), samples, "x", **options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "int8.onnx"
        path.write_bytes(file)
        model = load(path, x.shape)
    session = demo.start_session(file, 1)

    def ours() -> Any:
        with threads(1):
            return model(x)

    ort = partial(session.run, None, {"x": x})
    return [Contender(OURS, ours), Contender(ORT_INT8, lambda: ort()[0])]


def one_class(results: dict[str, Any]) -> None:
    """Both decide alike; they round in other places."""
    if len({int(np.argmax(np.asarray(found))) for found in results.values()}) > 1:
        raise Disagreement("the runtimes decide otherwise")
