"""What `quantize` and `run` do, between files."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.errors import DataError, OptionError
from mdtensor.quant.model.files import write_file
from mdtensor.quant.model.model import Model, load
from mdtensor.quant.observers import MinMaxObserver, MSEObserver

OBSERVERS: dict[str, type[MinMaxObserver]] = {
    "mse": MSEObserver,
    "minmax": MinMaxObserver,
}


def quantize_file(
    model: Path,
    data: Sequence[Path],
    out: Path,
    shape: str | None,
    observer: str,
    keep_float: Sequence[str],
    progress: Any,
) -> dict[str, Any]:
    """Quantize `model` on `data` into `out`; facts about both."""
    if observer not in OBSERVERS:
        raise OptionError(f"no observer {observer!r}", "Use mse or minmax")
    network = load(model, parse_shape(shape))
    samples = list(read_samples(data, network))
    with progress:
        watched = progress.track(samples, description="calibrating")
        calibration = network.calibrate(watched, OBSERVERS[observer])
    small = network.quantize(calibration, keep_float=keep_float)
    small.save(out)
    nodes = small.plan().nodes if _is_static(small) else ()
    return {
        "model": str(model),
        "output": str(out),
        "samples": calibration.samples,
        "file_bytes": {"float": model.stat().st_size, "int8": out.stat().st_size},
        "weight_bytes": {"float": network.weight_bytes, "int8": small.weight_bytes},
        "nodes": len(small.graph.nodes),
        "float_nodes": [
            {"node": n.node, "operation": n.operation, "why": n.why}
            for n in nodes
            if n.arithmetic == "float"
        ],
    }


def run_file(
    model: Path, inputs: Sequence[Path], shape: str | None, out: Path | None, plan: bool
) -> dict[str, Any]:
    """Run `model` once on the arrays in `inputs`."""
    network = load(model, parse_shape(shape))
    arrays = [read_array(path) for path in inputs]
    network(*arrays)
    start = time.perf_counter()
    results = network(*arrays)
    seconds = time.perf_counter() - start
    tensors = results if isinstance(results, tuple) else (results,)
    found = dict(zip(network.outputs, map(_numbers, tensors), strict=True))
    if out is not None:
        write_arrays(out, found)
    shapes = [array.shape for array in arrays]
    planned = network.plan(shapes[0] if len(shapes) == 1 else None) if plan else None
    return {
        "model": str(model),
        "seconds": seconds,
        "outputs": {name: _summary(array) for name, array in found.items()},
        "plan": planned.as_dicts() if planned else None,
    }


def _numbers(tensor: Any) -> Any:
    """The real numbers of a result."""
    from mdtensor.quant import QuantizedTensor, dequantize

    real = dequantize(tensor) if isinstance(tensor, QuantizedTensor) else tensor
    return np.asarray(real)


def _summary(array: Any) -> dict[str, Any]:
    flat = array.reshape(-1)
    return {
        "shape": list(array.shape),
        "argmax": int(flat.argmax()) if flat.size else None,
        "first": [float(v) for v in flat[:8]],
    }


def _is_static(network: Model) -> bool:
    return all(-1 not in spec.shape for spec in network.inputs.values())


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """`1,3,48,192` as sizes.

    Raises:
        OptionError: not sizes from 1 on.
    """
    if text is None:
        return None
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise OptionError(f"the shape is {text!r}", "Give sizes such as 1,3,48,192")
    return tuple(map(int, parts))


def read_array(path: Path) -> Any:
    """The array in a .npy file.

    Raises:
        DataError: there is no such file, or it holds no plain array.
    """
    try:
        return np.load(path, allow_pickle=False)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or 'it cannot be read'}") from None
    except (ValueError, EOFError):
        raise DataError(
            f"{path} holds no NumPy array", "Write it with numpy.save"
        ) from None


def read_samples(data: Sequence[Path], network: Model) -> Iterator[Any]:
    """Samples for the only input, one a step along the first axis of each file.

    Raises:
        DataError: no files, or files that hold no arrays.
    """
    wanted = next(iter(network.inputs.values())).shape
    for path in _files(data):
        loaded = read_array(path)
        arrays = [loaded] if isinstance(loaded, np.ndarray) else loaded.values()
        for array in arrays:
            yield from _batches(array, wanted)


def _batches(array: Any, wanted: tuple[int, ...]) -> Iterator[Any]:
    if array.ndim == len(wanted) and wanted[0] in (1, -1):
        yield from (array[i : i + 1] for i in range(len(array)))
    else:
        yield array


def _files(data: Sequence[Path]) -> Iterator[Path]:
    for path in data:
        if not path.is_dir():
            yield path
            continue
        found = sorted(p for p in path.iterdir() if p.suffix in (".npy", ".npz"))
        if not found:
            raise DataError(f"{path} holds no .npy or .npz file", "Name another folder")
        yield from found


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """A .npz file, written beside and renamed.

    Raises:
        ModelError: the place cannot be written.
    """
    import io

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_file(path, buffer.getvalue())
