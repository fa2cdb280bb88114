"""What `quantize` and `run` do, between files."""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import mdtensor as md
from mdtensor import quant
from mdtensor.cli import report
from mdtensor.cli.report import Facts, pairs, size_change, working
from mdtensor.cli.samples import parse_shapes, read_array, read_labels, read_samples
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import MdtensorError, ModelError, OptionError, shown
from mdtensor.kernels.cpu.compilation import Watch
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.graph import Graph
from mdtensor.quant.model.model import Model, load
from mdtensor.quant.model.onnx.files import check_writable, write_file
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.algorithms import ALGORITHMS, check_method, format_of
from mdtensor.quant.model.quantize.quantize import reasons
from mdtensor.quant.model.quantize.weights import described
from mdtensor.quant.observers import OBSERVERS
from mdtensor.quant.rules import check_rule
from mdtensor.spec.spec import TensorSpec
from mdtensor.support import call_of, find_form


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
    return {name: report.compare_outputs(found) for name, found in pairs.items()}


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
        "outputs": {n: report.summary(a, names) for n, a in found.items()},
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


# `mdtensor quantize-weights`: weights as codes, activations as they are.


def quantize_weights_file(
    model: Path,
    data: Sequence[Path],
    out: Path,
    shapes: Sequence[str],
    how: dict[str, Any],
    keep_float: Sequence[str],
) -> Facts:
    """Write `model` with codes for weights to `out`; facts about both.

    `how` are the options of `Model.quantize_weights`.
    """
    start = time.perf_counter()
    network = load(model, parse_shapes(shapes))
    check_apart(model, out)
    samples = read_samples(data, network) if data else None
    with working() as bar:
        seen = samples and bar.track(samples, description="weighing inputs")
        small = network.quantize_weights(samples=seen, keep_float=keep_float, **how)
    small.save(out)
    notes = small.graph.notes
    return {
        "model": str(model),
        "output": str(out),
        "seconds": time.perf_counter() - start,
        "file_bytes": {"float": model.stat().st_size, "codes": out.stat().st_size},
        "weight_bytes": {"float": network.weight_bytes, "codes": small.weight_bytes},
        "layers": sum(node.operation in WEIGHTED for node in small.graph.nodes),
        "kinds": _kinds(small.graph),
        "float_layers": [{"node": name, "why": why} for name, why in notes.items()],
    }


def _kinds(graph: Graph) -> list[Facts]:
    """How many layers have which weights, and the bits of one on average."""
    found: dict[str, list[Any]] = {}
    for node in graph.nodes:
        if node.operation in WEIGHTED and node.inputs[1] in graph.constants:
            weights = graph.constants[node.inputs[1]]
            found.setdefault(described(weights)[0], []).append(weights)
    return [
        {"weights": kind, "layers": len(them), "bits": _bits(them)}
        for kind, them in found.items()
    ]


def _bits(weights: Sequence[Any]) -> float:
    size = sum(tensor.size for tensor in weights)
    bits = 8 * sum(tensor.nbytes for tensor in weights)
    return float(bits / max(size, 1))


def show_weights(console: Console, facts: Facts) -> None:
    files, weights = facts["file_bytes"], facts["weight_bytes"]
    rows = [
        ("written", facts["output"]),
        ("file", size_change(files["float"], files["codes"])),
        ("weights", size_change(weights["float"], weights["codes"])),
        ("layers", f"{facts['layers']}, {len(facts['float_layers'])} in float"),
        ("time", f"{facts['seconds']:.2f} s"),
    ]
    for kind in facts["kinds"]:
        told = (
            f"{kind['layers']} of {kind['weights']}, {kind['bits']:.3g} bits a weight"
        )
        rows.insert(-1, ("", told))
    pairs(console, rows)
    for layer in facts["float_layers"]:
        console.print(f"  {layer['node']} is float; {layer['why']}")


# `mdtensor warmup`: compile what models and operations need, for processes to come.
#
# What is compiled lies in numba's cache, beside the kernels or where NUMBA_CACHE_DIR
# says; so a warm-up belongs where the package is installed, as the last step.

WarmupFacts = dict[str, Any]


def warm_up(
    models: Sequence[Path], operations: Sequence[str], shapes: Sequence[str]
) -> WarmupFacts:
    """Run each model and operation once; what was compiled, and what was there.

    Raises:
        OptionError: nothing to do, or no operation of that name.
        ModelError: a size of an input is not known.
    """
    if not (models or operations):
        raise OptionError("nothing to warm up", "Name models, or give --operation NAME")
    known = {name.rpartition(".")[2]: call for name, call in md.operations().items()}
    for name in operations:
        if name not in known:
            raise OptionError(
                f"no operation is called {shown(name)}", "See `mdtensor support`"
            )
    tasks: list[tuple[str, Callable[[], None]]] = [
        (str(path), partial(run_model, path, shapes)) for path in models
    ]
    tasks += [(n, partial(run_operation, known[n].operation)) for n in operations]
    return {"warmed": [warmed(name, task) for name, task in tasks]}


def warmed(name: str, task: Callable[[], None]) -> WarmupFacts:
    start = time.perf_counter()
    with Watch() as watch:
        task()
    counts = watch.counts
    seconds = time.perf_counter() - start
    found = {"compiled": counts.compiled, "loaded": counts.loaded}
    return {"name": name, **found, "seconds": seconds}


def run_model(path: Path, shapes: Sequence[str]) -> None:
    """One run on zeros: what is compiled depends on types, not on elements."""
    model = load(path, parse_shapes(shapes))
    for name, spec in model.inputs.items():
        if md.DYNAMIC in spec.shape:
            problem = f"{path}: sizes of the input {shown(name)} are not known"
            raise ModelError(problem, "Give --shape with all of them")
    zeros = {n: np.zeros(s.shape, s.dtype.storage) for n, s in model.inputs.items()}
    model(**zeros)


def run_operation(operation: Operation) -> None:
    """A small call for each element type that the operation takes."""
    form = find_form(operation)
    if form is None:
        problem = f"nothing is known of how to call {operation.name}"
        raise OptionError(problem, "Give a model that calls it")
    forms = [form]
    if "out" in operation.options:  # the grid of a result, where it needs one
        forms.append(replace(form, given=(*form.given, "out")))
    kinds = [kind for kind in md.leaves() if kind.device is md.cpu]
    for kind, way in product(kinds, forms):
        # Where types are refused there is nothing to compile.
        with suppress(MdtensorError):
            arguments, options = call_of(operation, kind, way)
            given = list(tensors(arguments))
            operation.function(*([given] if operation.sequence else given), **options)


def tensors(arguments: Sequence[Any]) -> Iterator[Any]:
    """Zeros for specs; what is none of them as it is."""
    for x in arguments:
        if not isinstance(x, TensorSpec):
            yield x
        elif issubclass(x.type, QuantizedTensor):
            zeros = md.zeros(x.shape)
            yield md.quant.quantize(zeros, x.qparams)
        else:
            yield md.zeros(x.shape, dtype=x.dtype)


def show_warmup(console: Console, facts: WarmupFacts) -> None:
    """A line for each, and what they come to."""
    rows = facts["warmed"]
    width = max(len(row["name"]) for row in rows)
    for row in [*rows, total(rows)] if len(rows) > 1 else rows:
        counts = f"{row['compiled']} compiled, {row['loaded']} from the cache"
        console.print(f"{row['name']:{width}}  {counts}, {row['seconds']:.1f} s")


def total(rows: Sequence[WarmupFacts]) -> WarmupFacts:
    keys = ("compiled", "loaded", "seconds")
    return {"name": "all", **{key: sum(row[key] for row in rows) for key in keys}}
