"""Reading of model files: the format is chosen by content."""

from __future__ import annotations

import os
from typing import Any

from mdtensor.graph import Graph
from mdtensor.quant.model.onnx.read import read_graph
from mdtensor.quant.model.tflite.identifier import is_tflite


def read_file(path: Any, *options: Any) -> Graph:
    """Read an ONNX or a TFLite file; the options are those of `onnx.read.read_graph`.

    Raises:
        ModelError: as `mdtensor.quant.load`.
    """
    if not isinstance(path, (str, os.PathLike)) or not is_tflite(path):
        return read_graph(path, *options)
    # Imported late: most files are ONNX.
    from mdtensor.quant.model.tflite.read import read_tflite

    return read_tflite(path, *options)
