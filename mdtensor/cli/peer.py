"""ONNX Runtime on the same model: float, and int8 by its own quantization tool."""

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdtensor.errors import ModelError

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
