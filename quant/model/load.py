"""Loading: a file as a model, on the host or on another device.

model = load("model.onnx", input_shapes=(1, 3, 224, 224))
there = load("model.onnx", device="emucuda")
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
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
from mdtensor.quant.model.automatic import AUTO
from mdtensor.quant.model.budget import Budget, Spending
from mdtensor.quant.model.decided import DecidedModel
from mdtensor.quant.model.decision_error import DecisionError
from mdtensor.quant.model.kept import KeptModel
from mdtensor.quant.model.model import Model, Path
from mdtensor.quant.model.passes import simplify
from mdtensor.quant.model.passes.rounding import reapply_rule
from mdtensor.quant.model.placed import PlacedModel
from mdtensor.quant.model.read import read_file
from mdtensor.quant.model.size_error import SizeError, has_open_size
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
            such as `{"sr": 16000}`; the model does not have these inputs. Fix an input
            that chooses the branch of an If, and the model has one graph.
        outputs: the names of the results, any values of the file; by default its
            outputs. Parts of the file that they do not need are not read, nor are
            inputs.
        budget: limits on what a file may compute while it is loaded.
        device: where the model runs, or the name of that device; as `Model.to`. With
            "auto", the device that is expected to be the fastest, of those that have
            the types, the methods and the memory; `model.device` is the choice.

    A later process that loads the same file runs the plan that this one makes first,
    and reads the file only if you ask for more; see `docs/how-to/cache.md`.

    Returns:
        A model. If a node needs a size that is dynamic, a `SizedModel`, which reads the
        file again for the input shapes of each call. If values decide what runs, such
        as the condition of an If or a Loop, a `DecidedModel`, which computes them at
        each call.

    Raises:
        ModelError: the file does not exist or is not a model, a part of the model
            is not supported, or the model needs more than the budget.
        DeviceError: there is no such device, or it lacks a type of the weights.
        AllocationError: no device has the memory, with `device="auto"`.
        OptionError: `device` is "auto", and a size of an input is dynamic.

    Example:
        >>> from mdtensor import quant
        >>> quant.load("model.onnx", device="emucuda")  # doctest: +SKIP
        PlacedModel(emucuda, ...)
    """
    # A wrong name raises before the file is read.
    place = cpu if device == AUTO else find_device(device)
    arguments = constants, outputs, budget
    try:
        # A kept plan has compiled calls of the host.
        is_here = place is cpu and device != AUTO
        found = _kept(path, input_shapes, *arguments) if is_here else None
        if found is not None:
            return found
        return _read_model(path, input_shapes, *arguments).to(device)
    except SizeError as error:
        if not has_open_size(error.inputs):
            return _decided(error, path, input_shapes, *arguments).to(device)
        check = _unchanged(path)

        def read(shapes: Shapes) -> Model:
            check()
            return _read_model(path, shapes, *arguments)

        return SizedModel(read, error).to(device)


def _read_model(path: Path | Any, *arguments: Any) -> Model:
    """Return the model of a file for input shapes.

    Raises:
        SizeError: a node needs a size that is dynamic.
        ModelError: as `load`.
    """
    try:
        return Model(_read(path, *arguments))
    except SizeError as error:
        return _decided(error, path, *arguments)


def _decided(
    error: SizeError,
    path: Path | Any,
    input_shapes: Shapes | None,
    constants: Mapping[str, Any] | None,
    outputs: Sequence[str] | None,
    budget: Budget | None,
) -> DecidedModel:
    """Return the model of a file that needs values which depend on the data.

    Raises:
        SizeError: it is `error`, which does not ask for such a value.
    """
    if not isinstance(error, DecisionError) or error.question is None:
        raise error
    check = _unchanged(path)

    def read(known: Mapping[str, Any]) -> Model:
        check()
        return Model(_read(path, input_shapes, constants, outputs, budget, known))

    return DecidedModel(read, error, budget)


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


def _unchanged(path: Path | Any) -> Callable[[], None]:
    """Return a function that raises if the file changes after this call."""
    before = _stamp(path)

    def check() -> None:
        if _stamp(path) != before:
            raise ModelError(f"{path} changed after it was loaded", "Load it again")

    return check


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
    decided: Mapping[str, Any] | None = None,
) -> Graph:
    """Return the graph of a file for input shapes, of which some may be dynamic.

    Raises:
        SizeError: a node needs a size that is dynamic.
        ModelError: as `load`.
    """
    spending = Spending(budget)
    options = (constants, outputs, decided) if decided else (constants, outputs)
    graph = read_file(path, input_shapes, spending, *options)
    # Rewrites make new nodes, whose grids do not carry the rule of the file yet.
    return reapply_rule(simplify.simplify(graph, spending))
