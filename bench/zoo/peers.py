"""ONNX Runtime and LiteRT: each runs a file, on one thread, by names of its inputs."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.cli import demo

Array = Any
#: The first operator set that stores scales per channel.
OPSET = 13


class OnnxRuntime:
    """An ONNX file in ONNX Runtime."""

    def __init__(self, file: Path | bytes, constants: Mapping[str, Any]) -> None:
        self._session = demo.start_session(file, 1)
        given = {one.name: one for one in self._session.get_inputs()}
        self._fixed = {
            name: np.asarray(value, _dtype(given[name].type))
            for name, value in constants.items()
            if name in given
        }
        self.outputs = [one.name for one in self._session.get_outputs()]

    def feeds(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Return all inputs of the file for a sample."""
        return {**sample, **self._fixed}

    def first(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the results of a first call; all calls are alike."""
        return self(feeds)

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        results: list[Array] = self._session.run(None, feeds)
        return results


class LiteRT:
    """A TFLite file in LiteRT; results and inputs are numbers, not codes."""

    def __init__(self, file: Path) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._file, self._run = file, Interpreter(str(file), num_threads=1)
        self._run.allocate_tensors()
        self._given = {one["name"]: one for one in self._run.get_input_details()}
        self._made = self._run.get_output_details()

    def feeds(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        """Return the codes or numbers of each input that LiteRT takes."""
        return {
            name: _codes(sample[name], one)
            for name, one in self._given.items()
            if name in sample
        }

    def first(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the results of a first call.

        `reset_all_variables` writes zeros, where a file may begin with other codes.
        """
        return LiteRT(self._file)(feeds)

    def __call__(self, feeds: Mapping[str, Array]) -> list[Array]:
        for name, one in self._given.items():
            self._run.set_tensor(one["index"], feeds[name])
        self._run.invoke()
        return [_numbers(self._run.get_tensor(one["index"]), one) for one in self._made]


def quantized(
    path: Path, samples: Iterable[Mapping[str, Array]], folder: Path
) -> bytes:
    """Return the file as ONNX Runtime's `quantize_static` writes it.

    Codes of activations are unsigned, weights have one scale for each channel; other
    settings are the tool's own.
    """
    from onnxruntime.quantization import QuantType, quantize_static

    types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    target = folder / "peer.onnx"
    with demo._silence():
        prepared = _prepared(path, folder)
        quantize_static(prepared, target, _reader(samples), per_channel=True, **types)
    return target.read_bytes()


def _prepared(path: Path, folder: Path) -> Path:
    """Prepare a file as the guide of the tool requires."""
    import onnx
    from onnx import version_converter
    from onnxruntime.quantization.shape_inference import quant_pre_process

    model = onnx.load(path)
    version = next(one.version for one in model.opset_import if not one.domain)
    raised, prepared = folder / "raised.onnx", folder / "prepared.onnx"
    if version < OPSET:
        model = version_converter.convert_version(model, OPSET)
    onnx.save(model, raised)
    quant_pre_process(raised, prepared, skip_symbolic_shape=True)
    return prepared


def _reader(samples: Iterable[Mapping[str, Array]]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left: Iterator[Any] = iter(samples)

        def get_next(self) -> Any:
            return next(self.left, None)

    return Samples()


def _dtype(text: str) -> str:
    """Return NumPy's name of a type such as `tensor(float)`."""
    name = text.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(name, name)


def _grid(one: Mapping[str, Any]) -> tuple[float, int] | None:
    scale, zero = one["quantization"]
    return (scale, zero) if scale else None


def _codes(x: Array, one: Mapping[str, Any]) -> Array:
    if (grid := _grid(one)) is None:
        return x.astype(one["dtype"])
    limits = np.iinfo(one["dtype"])
    codes = np.rint(x / np.float32(grid[0])) + grid[1]
    return np.clip(codes, limits.min, limits.max).astype(one["dtype"])


def _numbers(x: Array, one: Mapping[str, Any]) -> Array:
    grid = _grid(one)
    return x if grid is None else (x.astype(np.float64) - grid[1]) * grid[0]


def saved(model: Any) -> tuple[Path, bytes]:
    """Return the file that `Model.save` writes, and its bytes."""
    with tempfile.NamedTemporaryFile(suffix=".onnx", delete=False) as file:
        path = Path(file.name)
    model.save(path)
    return path, path.read_bytes()
