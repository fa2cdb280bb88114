"""Loading: a file as a model, on the host or on another device.

model = load("model.onnx", input_shapes=(1, 3, 224, 224))
there = load("model.onnx", device="emucuda")
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, overload

from mdtensor import Device, cpu
from mdtensor.errors import ModelError
from mdtensor.extend import (
    default_settings,
    explain_wrong_calls,
    file_path,
    find_device,
    settings,
)
from mdtensor.graph import Graph
from mdtensor.graph.inputs import Shapes
from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.isa import IS_JIT_DISABLED
from mdtensor.quant.model.budget import Budget, Spending
from mdtensor.quant.model.kept import KeptModel
from mdtensor.quant.model.model import Model, Path
from mdtensor.quant.model.passes import simplify
from mdtensor.quant.model.passes.rounding import reapply_rule
from mdtensor.quant.model.placed import PlacedModel
from mdtensor.quant.model.read import read_file
from mdtensor.quant.model.size_error import SizeError
from mdtensor.quant.model.sized import SizedModel
from mdtensor.quant.plans import cache


@overload
def load(
    path: Path | Any,
    input_shapes: Shapes | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    budget: Budget | None = None,
) -> Model: ...


@overload
def load(
    path: Path | Any,
    input_shapes: Shapes | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    budget: Budget | None = None,
    device: Device | str,
) -> Model | PlacedModel: ...


# Nearly half of the files that people have calculate with open sizes (decision 0088).
@explain_wrong_calls
def load(
    path: Path | Any,
    input_shapes: Shapes | None = None,
    *,
    constants: Mapping[str, Any] | None = None,
    outputs: Sequence[str] | None = None,
    budget: Budget | None = None,
    device: Device | str = cpu,
) -> Model | PlacedModel:
    """Load an ONNX or TFLite model and simplify it: fold constants and batch norms.

    Args:
        path: the file, or an `onnx.ModelProto`; float, or quantized with QDQ or QLinear
            operators, or as TFLite quantizes.
        input_shapes: the shape of each input by name, or of the only input. A size that
            you omit is 1 in a TFLite file, and dynamic in an ONNX file.
        constants: a number or an array for each input that you want to fix, by name,
            such as `{"sr": 16000}`; the model does not have these inputs. If an input
            chooses the branch of an If, fix it: a model does not have branches.
        outputs: the names of the results, any values of the file; by default its
            outputs. Parts of the file that they do not need are not read, nor are
            inputs.
        budget: limits on what a file may compute while it is loaded.
        device: where the model runs, or the name of that device; as `Model.to`.

    A later process that loads the same file runs the plan that this one makes first,
    and reads the file only if you ask for more; see `docs/how-to/cache.md`.

    Returns:
        A model. If a node needs a size that is dynamic, a `SizedModel`, which reads the
        file again for the input shapes of each call.

    Raises:
        ModelError: the file does not exist or is not a model, a part of the model
            is not supported, or the model needs more than the budget.
        DeviceError: there is no such device, or it lacks a type of the weights.

    Example:
        >>> from mdtensor import quant
        >>> quant.load("model.onnx", device="emucuda")  # doctest: +SKIP
        PlacedModel(emucuda, ...)
    """
    # A wrong name raises before the file is read.
    place = find_device(device)
    arguments = constants, outputs, budget
    try:
        # A kept plan has compiled calls of the host.
        found = _kept(path, input_shapes, *arguments) if place is cpu else None
        if found is not None:
            return found
        return Model(_read(path, input_shapes, *arguments)).to(place)
    except SizeError as error:
        if not any(-1 in spec.shape for spec in error.inputs.values()):
            raise
        before = _stamp(path)

        def read(shapes: Shapes) -> Model:
            if _stamp(path) != before:
                raise ModelError(f"{path} changed after it was loaded", "Load it again")
            return Model(_read(path, shapes, *arguments))

        return SizedModel(read, error).to(place)


def _kept(
    path: Path | Any,
    input_shapes: Shapes | None,
    constants: Mapping[str, Any] | None,
    outputs: Sequence[str] | None,
    budget: Budget | None,
) -> KeptModel | None:
    """Return the model of a file whose plan is kept, or can be; else None.

    Raises:
        SizeError, ModelError: as `_read`.
    """
    isa, given = kernel_set.CHOSEN.get().name, constants or budget is not None
    is_file = isinstance(path, (str, os.PathLike))
    # What a block around this call changes could change the plan.
    is_plain = settings() == default_settings() and not IS_JIT_DISABLED
    if given or not (is_file and is_plain and cache.may_keep()):
        return None
    file = file_path(path, "path").absolute()
    place = cache.place_of(file, (input_shapes, outputs), isa)
    if place is None:
        return None
    kept = cache.find(place)

    def read() -> Graph:
        if kept is None:
            return _read(path, input_shapes, None, outputs, budget)
        if cache.place_of(file, (input_shapes, outputs), isa) != place:
            raise ModelError(f"{path} changed after it was loaded", "Load it again")
        return _read(file, input_shapes, None, outputs, budget)

    return KeptModel(read, place, file.name, kept)


def _stamp(path: Path | Any) -> tuple[int, int] | None:
    """Return the time and the size of a file; None for a ModelProto or no file."""
    try:
        found = pathlib.Path(path).stat()
    except (OSError, TypeError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def _read(
    path: Path | Any,
    input_shapes: Shapes | None,
    constants: Mapping[str, Any] | None,
    outputs: Sequence[str] | None,
    budget: Budget | None,
) -> Graph:
    """Return the graph of a file for input shapes, of which some may be dynamic.

    Raises:
        SizeError: a node needs a size that is dynamic.
        ModelError: as `load`.
    """
    spending = Spending(budget)
    graph = read_file(path, input_shapes, spending, constants, outputs)
    # Rewrites make new nodes, whose grids do not carry the rule of the file yet.
    return reapply_rule(simplify.simplify(graph, spending))
