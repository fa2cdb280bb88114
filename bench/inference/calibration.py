"""Calibration and quantization of a float file, by mdtensor and by ONNX Runtime's tool.

Both get the same file and crops, and return a quantized network.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.harness import Contender, Race, Row
from bench.harness.agreement import Disagreement
from bench.inference.runtimes import ORT_INT8, OURS
from mdtensor.cli import demo, demo_data
from mdtensor.quant.model.load import load

#: Crops of a page to calibrate on.
CROPS = 8
TABLE = "Calibration and quantization"


def calibrations(name: str) -> Iterator[Row]:
    yield Race(f"{name}, calibration", contenders, one_class, TABLE, OURS, share=0.3)


def contenders() -> list[Contender]:
    calibration, held_back = demo_data.crops()
    samples = [crop.pixels for crop in calibration[:CROPS]]
    path, x = demo_data.classifier_path(), held_back[0].pixels

    def ours() -> Any:
        network = load(path, x.shape)
        return network.quantize(network.calibrate(samples))

    def theirs() -> Any:
        return demo.quantize_by_tool(path, samples, "x")

    return [Contender(OURS, ours), Contender(ORT_INT8, theirs)]


def one_class(results: dict[str, Any]) -> None:
    """Both networks decide alike about a crop that neither has seen."""
    x = demo_data.crops()[1][0].pixels
    session = demo.start_session(results[ORT_INT8], 1)
    found = np.asarray(results[OURS](x)), session.run(None, {"x": x})[0]
    if len({int(np.argmax(numbers)) for numbers in found}) > 1:
        raise Disagreement("the quantized networks decide otherwise")
