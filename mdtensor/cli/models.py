"""What `quantize` and `run` do, between files."""

import io
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor import quant
from mdtensor.cli import outputs
from mdtensor.cli.samples import parse_shapes, read_array, read_labels, read_samples
from mdtensor.cli.working import working
from mdtensor.errors import ModelError, OptionError
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.model import Model, load
from mdtensor.quant.model.onnx.files import check_writable, write_file
from mdtensor.quant.model.quantize.algorithms import ALGORITHMS, check_method, format_of
from mdtensor.quant.model.quantize.quantize import reasons
from mdtensor.quant.observers import OBSERVERS
from mdtensor.quant.rules import check_rule


def quantize_file(
    model: Path,
    data: Sequence[Path],
    out: Path,
    shapes: Sequence[str],
    observer: str,
    scaling: dict[str, Any],
    how: dict[str, Any],
    keep_float: Sequence[str],
    check: bool,
) -> dict[str, Any]:
    """Quantize `model` on `data` into `out`; facts about both.

    `scaling` says what is done to the float model: `equalize`, and `smooth` with this
    strength. `how` are the options of `Model.quantize`. All that can be wrong with the
    arguments is found before anything takes time.
    """
    start = time.perf_counter()
    _check_known("observer", observer, OBSERVERS)
    _check_options(**how)
    network = load(model, parse_shapes(shapes))
    reasons(network.graph, keep_float)
    check_apart(model, out)
    samples = read_samples(data, network)
    with working() as progress:
        even = _scaled(network, samples, progress, **scaling)
        watched = progress.track(samples, description="calibrating")
        seen = even.calibrate(watched, OBSERVERS[observer])
        again = None
        if how["method"] == "gptq" or how["correct_bias"]:
            again = progress.track(samples, description="weighing inputs")
        small = even.quantize(seen, keep_float=keep_float, samples=again, **how)
        small.save(out)
        found = _compared(network, small, samples, progress) if check else None
    return {
        "model": str(model),
        "output": str(out),
        "samples": seen.samples,
        "seconds": time.perf_counter() - start,
        "file_bytes": {"float": model.stat().st_size, "int8": out.stat().st_size},
        "weight_bytes": {"float": network.weight_bytes, "int8": small.weight_bytes},
        **_nodes(small, samples[0]),
        "check": found,
    }


def _check_options(
    method: str, weight_dtype: str, rounding: str, correct_bias: bool
) -> None:
    check_method(method, ALGORITHMS)
    format_of(weight_dtype)
    check_rule(rounding)


def _scaled(
    network: Model,
    samples: Sequence[Any],
    progress: Any,
    equalize: bool,
    smooth: float | None,
) -> Model:
    """The same function, with scales moved between its layers."""
    even = network.equalize() if equalize else network
    if smooth is None:
        return even
    watched = progress.track(samples, description="weighing channels")
    return even.smooth(watched, strength=smooth)


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        *others, last = known
        raise OptionError(f"no {what} {name!r}", f"Use {', '.join(others)} or {last}")


def check_apart(model: Path, out: Path) -> None:
    """Refuse to write over the model, or where nothing can be written.

    Raises:
        ModelError: that.
    """
    check_writable(out)
    if out.exists() and out.samefile(model):
        raise ModelError(
            f"{out} is the model itself, which would be lost", "Choose another name"
        )


def _nodes(small: Model, sample: dict[str, Any]) -> dict[str, Any]:
    """How many nodes there are, and which stay float, planned for one sample."""
    plan = small.plan({name: tensor.shape for name, tensor in sample.items()})
    return {
        "nodes": len(plan.nodes),
        "float_nodes": [
            {"node": n.node, "operation": n.operation, "why": n.why}
            for n in plan.float_nodes
        ],
    }


def _compared(
    network: Model, small: Model, samples: Sequence[dict[str, Any]], progress: Any
) -> dict[str, Any]:
    """What the quantized model says beside the float one, on each sample."""
    pairs: dict[str, list[Any]] = {name: [] for name in network.outputs}
    for sample in progress.track(samples, description="comparing with float"):
        one, other = _called(network, sample), _called(small, sample)
        for name in pairs:
            pairs[name].append((one[name], other[name]))
    return {name: outputs.compared(found) for name, found in pairs.items()}


def run_file(
    model: Path,
    inputs: Sequence[Path],
    shapes: Sequence[str],
    out: Path | None,
    labels: Path | None,
    plan: bool,
    threads: int | None,
) -> dict[str, Any]:
    """Run `model` on the arrays in `inputs`, on `threads` if they are given."""
    chosen = nullcontext() if threads is None else quant.threads(threads)
    if out is not None:
        check_writable(out)
    names = read_labels(labels)
    network = load(model, parse_shapes(shapes))
    feeds = network.fed(*map(read_array, inputs))
    with working() as progress, chosen:
        progress.add_task("running", total=None)
        found = _called(network, feeds)
    with chosen:
        seconds = _least(lambda: network(**feeds))
    if out is not None:
        write_arrays(out, found)
    given = {name: tensor.shape for name, tensor in feeds.items()}
    return {
        "model": str(model),
        "seconds": seconds,
        "outputs": {n: outputs.summary(a, names) for n, a in found.items()},
        "plan": network.plan(given).as_dicts() if plan else None,
    }


def _least(call: Callable[[], object], repeat: int = 3) -> float:
    """Seconds of a call, the least of some."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _called(network: Model, feeds: dict[str, Any]) -> dict[str, Any]:
    """The numbers of each output, by name."""
    results = network(**feeds)
    tensors: Iterable[Any] = results if isinstance(results, tuple) else (results,)
    return dict(zip(network.outputs, map(_numbers, tensors), strict=True))


def _numbers(tensor: Any) -> Any:
    """The real numbers of a result."""
    real = dequantize(tensor) if isinstance(tensor, QuantizedTensor) else tensor
    return np.asarray(real)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """A .npz file, written beside and renamed.

    Raises:
        ModelError: the place cannot be written.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_file(path, buffer.getvalue())
