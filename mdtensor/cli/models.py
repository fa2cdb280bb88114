"""The commands on model files: `quantize`, `quantize-weights`, `run` and `warmup`.

A warm-up compiles kernels into numba's cache, which lies next to the kernels or in
NUMBA_CACHE_DIR. So it belongs where the package is installed, as the last step.
"""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import mdtensor as md
from mdtensor import quant
from mdtensor.cli import report
from mdtensor.cli.outputs import check_apart, model_inputs
from mdtensor.cli.report import Facts, pairs, size_change, working
from mdtensor.cli.samples import (
    parse_shapes,
    read_array,
    read_labels,
    read_samples,
    sample_files,
)
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import DataError, MdtensorError, ModelError, OptionError, shown
from mdtensor.graph import Graph
from mdtensor.graph.inputs import shapes_example
from mdtensor.graph.plan import describe_weights
from mdtensor.kernels.cpu.compilation import Watch
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.files import require_onnx_name, write_file
from mdtensor.quant.model.onnx.qdq import WEIGHTED
from mdtensor.quant.model.quantize.algorithms import ALGORITHMS, check_method, format_of
from mdtensor.quant.model.quantize.quantize import reasons
from mdtensor.quant.model.quantize.search import Step, check_budget
from mdtensor.quant.observers import OBSERVERS
from mdtensor.quant.rules import check_rule
from mdtensor.spec.spec import TensorSpec
from mdtensor.support_table import call_of, find_form


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
    budget: float | None = None,
    held_out: Sequence[Path] = (),
) -> dict[str, Any]:
    """Quantize `model` on `data`, write it to `out`, and return facts about both.

    `scaling` has the options for the float model: `equalize`, and the strength of
    `smooth`. `how` has the options of `Model.quantize`.
    """
    start = time.perf_counter()
    # Check all arguments first, because calibration may take minutes.
    _check_known("observer", observer, OBSERVERS)
    _check_options(**how)
    if budget is not None:
        check_budget(budget, held_out or None, None)
    network = load(model, parse_shapes(shapes))
    reasons(network.graph, keep_float)
    # After the reads, so that a missing model is reported before anything about the
    # output.
    read = [*sample_files(data), *sample_files(held_out)]
    check_apart(out, {**model_inputs(model), "a file of samples": read})
    require_onnx_name(out)
    # All samples are read at once: two passes and the check need the same ones.
    samples = read_samples(data, network)
    with working() as progress:
        even = _scale(network, samples, progress, **scaling)
        watched = progress.track(samples, description="calibrating")
        seen = even.calibrate(watched, OBSERVERS[observer])
        # gptq and bias correction need the inputs of each layer, hence a second pass.
        again = None
        if how["method"] == "gptq" or how["correct_bias"]:
            again = progress.track(samples, description="weighing inputs")
        how = how | _search_options(budget, held_out, network, progress)
        small = even.quantize(seen, keep_float=keep_float, samples=again, **how)
        small.save(out)
        # After the file is written, so that a failed comparison does not lose the
        # model.
        found = _compare(network, small, samples, progress) if check else None
    return {
        "model": str(model),
        "output": str(out),
        "samples": seen.samples,
        "seconds": time.perf_counter() - start,
        "file_bytes": {"float": model.stat().st_size, "int8": out.stat().st_size},
        "weight_bytes": {"float": network.weight_bytes, "int8": small.weight_bytes},
        **_nodes(small, samples[0]),
        "check": found,
        "search": None if small.search is None else asdict(small.search),
    }


def _search_options(
    budget: float | None, held_out: Sequence[Path], network: Model, progress: Any
) -> dict[str, Any]:
    """Return the options of a search under a budget; none without one."""
    if budget is None:
        return {}
    task = progress.add_task("searching", total=None)

    def note(step: Step) -> None:
        progress.update(task, description=f"searching: error {step.error:.3g}")

    samples = read_samples(held_out, network)
    return {"budget": budget, "held_out": samples, "progress": note}


def _check_options(
    method: str,
    weight_dtype: str,
    reduce_range: bool,
    rounding: str,
    correct_bias: bool,
) -> None:
    # The same checks run in `quantize`, but only after the calibration.
    check_method(method, ALGORITHMS)
    format_of(weight_dtype, reduce_range)
    check_rule(rounding)


def _scale(
    network: Model,
    samples: Sequence[Any],
    progress: Any,
    equalize: bool,
    smooth: float | None,
) -> Model:
    """Return a model of the same function with scales moved between its layers."""
    # Equalizing comes first: it changes the ranges of activations that `smooth`
    # measures.
    even = network.equalize() if equalize else network
    if smooth is None:
        return even
    watched = progress.track(samples, description="weighing channels")
    return even.smooth(watched, strength=smooth)


def _check_known(what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        *others, last = known
        raise OptionError(f"no {what} {name!r}", f"Use {', '.join(others)} or {last}")


def _nodes(small: Model, sample: dict[str, Any]) -> dict[str, Any]:
    """Count the nodes and list the float ones, planned for one sample."""
    # Planned for the shapes of a sample, because open sizes leave reasons unknown.
    plan = small.plan({name: tensor.shape for name, tensor in sample.items()})
    return {
        "nodes": len(plan.nodes),
        "float_nodes": [
            {"node": n.node, "operation": n.operation, "why": n.why}
            for n in plan.float_nodes
        ],
    }


def _compare(
    network: Model, small: Model, samples: Sequence[dict[str, Any]], progress: Any
) -> dict[str, Any]:
    """Compare the outputs of the quantized and the float model on each sample."""
    pairs: dict[str, list[Any]] = {name: [] for name in network.outputs}
    for sample in progress.track(samples, description="comparing with float"):
        one, other = _outputs(network, sample), _outputs(small, sample)
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
    """Run `model` on the arrays in `inputs`; return facts about its outputs."""
    chosen = nullcontext() if threads is None else quant.threads(threads)
    names = read_labels(labels)
    network = load(model, parse_shapes(shapes))
    _require_inputs(network, inputs)
    # A state that the caller does not give has its first value.
    left = list(network.inputs)[len(inputs) :]
    states = {n: x for n, x in network.states.items() if n in left}
    feeds = network.fed(*map(read_array, inputs), **states)
    # Before the run, which may take long.
    read = {"an input itself": inputs, "the file of labels": [labels] if labels else []}
    check_apart(out, {**model_inputs(model), **read})
    require_array_name(out, network.outputs)
    with working() as progress, chosen:
        progress.add_task("running", total=None)
        # The results are converted inside the bar: the first run compiles and takes
        # longest.
        found = _outputs(network, feeds)
    # The first run above compiled the kernels, so these calls measure the model alone.
    with chosen:
        seconds = _least(lambda: network(**feeds))
    if out is not None:
        write_arrays(out, found)
    given = {name: tensor.shape for name, tensor in feeds.items()}
    return {
        "model": str(model),
        "output": None if out is None else str(out),
        "seconds": seconds,
        "outputs": {n: report.summary(a, names) for n, a in found.items()},
        "plan": network.plan(given).as_dicts() if plan else None,
    }


def _require_inputs(network: Model, inputs: Sequence[Path]) -> None:
    """Raise if there are fewer files than inputs without a first value.

    Raises:
        DataError: a file is missing.
    """
    needed = [name for name in network.inputs if name not in network.states]
    if network.states and len(inputs) < len(needed):
        files = ", ".join(map(str, inputs)) or "none"
        problem = (
            f"the model needs a file for {', '.join(map(repr, needed))}, not {files}"
        )
        raise DataError(
            problem, "Give each in this order; its states begin by themselves"
        )


def _least(call: Callable[[], object], repeat: int = 3) -> float:
    """Return the seconds of the fastest of a few calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    # The fastest call is the one that other processes disturbed least.
    return min(times)


def _outputs(network: Model, feeds: dict[str, Any]) -> dict[str, Any]:
    """Return the real numbers of each output, by name."""
    results = network(**feeds)
    tensors: Iterable[Any] = results if isinstance(results, tuple) else (results,)
    return dict(zip(network.outputs, map(_numbers, tensors), strict=True))


def _numbers(tensor: object) -> Any:
    """Return the real numbers of a result."""
    # Codes mean nothing without their grid.
    real = dequantize(tensor) if isinstance(tensor, QuantizedTensor) else tensor
    return np.asarray(real)


def require_array_name(path: Path | None, outputs: Sequence[str]) -> None:
    """Raise for a name that does not fit the results: NumPy reads a file by its name.

    Raises:
        OptionError: the name ends neither in .npz nor in .npy, or in .npy although
            there are several results.
    """
    if path is None or path.suffix == ".npz":
        return
    fix = f"Use {path.with_suffix('.npz').name}"
    if path.suffix != ".npy":
        raise OptionError(f"{path} is neither a .npz nor a .npy file", fix)
    if len(outputs) != 1:
        names = ", ".join(map(shown, outputs))
        problem = f"{path} would hold one array, and the results are {names}"
        raise OptionError(problem, fix)


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays to a .npz file, or one array to a .npy file, completely or not.

    Raises:
        ModelError: the file cannot be written.
    """
    # Written in memory first, since a file that is half written must not stay.
    buffer = io.BytesIO()
    if path.suffix == ".npy":
        (array,) = arrays.values()
        np.save(buffer, array, allow_pickle=False)
    else:
        np.savez(buffer, **arrays)
    write_file(path, buffer.getvalue())


def quantize_weights_file(
    model: Path,
    data: Sequence[Path],
    out: Path,
    shapes: Sequence[str],
    how: dict[str, Any],
    keep_float: Sequence[str],
) -> Facts:
    """Quantize the weights of `model`, write it to `out`, return facts about both.

    `how` has the options of `Model.quantize_weights`.
    """
    start = time.perf_counter()
    network = load(model, parse_shapes(shapes))
    check_apart(out, {**model_inputs(model), "a file of samples": sample_files(data)})
    require_onnx_name(out)
    # Only gptq and awq look at inputs.
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
    """Count the layers by kind of weights, with the mean bits of a weight."""
    found: dict[str, list[Any]] = {}
    for node in graph.nodes:
        if node.operation in WEIGHTED and node.inputs[1] in graph.constants:
            weights = graph.constants[node.inputs[1]]
            found.setdefault(describe_weights(weights)[0], []).append(weights)
    return [
        {"weights": kind, "layers": len(group), "bits": _bits(group)}
        for kind, group in found.items()
    ]


def _bits(weights: Sequence[Any]) -> float:
    size = sum(tensor.size for tensor in weights)
    # Bytes as stored, scales included, so that formats of different blocks compare
    # fairly.
    bits = 8 * sum(tensor.nbytes for tensor in weights)
    return float(bits / max(size, 1))


def show_weights(console: Console, facts: Facts) -> None:
    """Print the result of `mdtensor quantize-weights`."""
    files, weights = facts["file_bytes"], facts["weight_bytes"]
    rows = [
        ("written", facts["output"]),
        ("file", size_change(files["float"], files["codes"])),
        ("weights", size_change(weights["float"], weights["codes"])),
        ("layers", f"{facts['layers']}, {len(facts['float_layers'])} in float"),
        ("time", f"{facts['seconds']:.2f} s"),
    ]
    for kind in facts["kinds"]:
        text = (
            f"{kind['layers']} of {kind['weights']}, {kind['bits']:.3g} bits a weight"
        )
        rows.insert(-1, ("", text))
    pairs(console, rows)
    for layer in facts["float_layers"]:
        console.print(f"  {layer['node']} is float; {layer['why']}")


WarmupFacts = dict[str, Any]


def warm_up(
    models: Sequence[Path], operations: Sequence[str], shapes: Sequence[str]
) -> WarmupFacts:
    """Run each model and operation once; count compiled and cached kernels.

    Raises:
        OptionError: there is nothing to do, or an operation is unknown.
        ModelError: a size of an input is unknown.
    """
    if not (models or operations):
        raise OptionError("nothing to warm up", "Pass models, or --operation NAME")
    known = {name.rpartition(".")[2]: call for name, call in md.operations().items()}
    # All names are checked before the first compilation, which takes seconds.
    for name in operations:
        if name not in known:
            raise OptionError(
                f"no operation is called {shown(name)}", "See `mdtensor support`"
            )
    tasks: list[tuple[str, Callable[[], None]]] = [
        (str(path), partial(run_model, path, shapes)) for path in models
    ]
    tasks += [(n, partial(run_operation, known[n].operation)) for n in operations]
    return {"warmed": [warm(name, task) for name, task in tasks]}


def warm(name: str, task: Callable[[], None]) -> WarmupFacts:
    """Run one task, and count the kernels that it compiles or loads."""
    start = time.perf_counter()
    with Watch() as watch:
        task()
    counts = watch.counts
    seconds = time.perf_counter() - start
    found = {"compiled": counts.compiled, "loaded": counts.loaded}
    return {"name": name, **found, "seconds": seconds}


def run_model(path: Path, shapes: Sequence[str]) -> None:
    """Run a model once on zeros."""
    model = load(path, parse_shapes(shapes))
    for name, spec in model.inputs.items():
        # Zeros need sizes, and a guess could select other kernels.
        if md.DYNAMIC in spec.shape:
            problem = f"{path}: some sizes of the input {shown(name)} are unknown"
            raise ModelError(problem, f"Pass {shapes_example(model.inputs)}")
    # Kernels are compiled by type, so the elements do not matter.
    zeros = {n: np.zeros(s.shape, s.dtype.storage) for n, s in model.inputs.items()}
    model(**zeros)


def run_operation(operation: Operation) -> None:
    """Make a small call for each element type that the operation takes."""
    form = find_form(operation)
    if form is None:
        problem = f"{operation.name} does not have an example call, so it needs a model"
        raise OptionError(problem, f"Pass a model file that uses {operation.name}")
    forms = [form]
    # Quantized results may need a grid, which `out` gives.
    if "out" in operation.options:
        forms.append(form._replace(given=(*form.given, "out")))
    # Only the host compiles kernels here.
    kinds = [kind for kind in md.leaves() if kind.device is md.cpu]
    for kind, way in product(kinds, forms):
        # If the operation does not take the types, there is nothing to compile.
        with suppress(MdtensorError):
            arguments, options = call_of(operation, kind, way)
            given = list(tensors(arguments))
            operation.function(*([given] if operation.sequence else given), **options)


def tensors(arguments: Sequence[Any]) -> Iterator[Any]:
    """Yield zeros for each spec, and other arguments unchanged."""
    for x in arguments:
        if not isinstance(x, TensorSpec):
            yield x
        elif issubclass(x.type, QuantizedTensor):
            # Through `quantize`, because a quantized tensor needs its grid.
            zeros = md.zeros(x.shape)
            yield md.quant.quantize(zeros, x.qparams)
        else:
            yield md.zeros(x.shape, dtype=x.dtype)


def show_warmup(console: Console, facts: WarmupFacts) -> None:
    """Print a line for each model and operation, and the total."""
    rows = facts["warmed"]
    width = max(len(row["name"]) for row in rows)
    for row in [*rows, total(rows)] if len(rows) > 1 else rows:
        counts = f"{row['compiled']} compiled, {row['loaded']} from the cache"
        console.print(f"{row['name']:{width}}  {counts}, {row['seconds']:.1f} s")


def total(rows: Sequence[WarmupFacts]) -> WarmupFacts:
    """Return the sums of the counts and seconds."""
    keys = ("compiled", "loaded", "seconds")
    return {"name": "all", **{key: sum(row[key] for row in rows) for key in keys}}
