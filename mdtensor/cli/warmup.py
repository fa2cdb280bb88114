"""`mdtensor warmup`: compile what models and operations need, for processes to come.

What is compiled lies in numba's cache, beside the kernels or where NUMBA_CACHE_DIR
says; so a warm-up belongs where the package is installed, as the last step.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import mdtensor as md
from mdtensor.cli.samples import parse_shapes
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import MdtensorError, ModelError, OptionError, shown
from mdtensor.kernels.cpu.compilation import Watch
from mdtensor.probe import call_of, find_form
from mdtensor.quant import QuantizedTensor
from mdtensor.quant.model.model import load
from mdtensor.spec.spec import TensorSpec

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
