"""Models whose files can only be read for known input shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mdtensor import Device, Tensor, cpu
from mdtensor.errors import ModelError, OptionError
from mdtensor.extend import explain_wrong_calls, find_device
from mdtensor.graph.bound import in_order
from mdtensor.graph.inputs import Shapes, chosen, shapes_example
from mdtensor.graph.plan import Plan
from mdtensor.quant.model.automatic import AUTO
from mdtensor.quant.model.model import Model, Path
from mdtensor.quant.model.placed import PlacedModel
from mdtensor.quant.model.placed_sized import PlacedSizedModel
from mdtensor.quant.model.recent import Recent
from mdtensor.quant.model.reread import RereadModel
from mdtensor.quant.model.size_error import SizeError

Key = tuple[tuple[int, ...], ...]


# A graph with known shapes has fewer nodes, and all of its sizes are numbers (decision
# 0088).
class SizedModel(RereadModel):
    """A model that is read for the input shapes of each call.

    `load` returns it for a file whose graph depends on input shapes that are not fixed.
    It keeps the models for the 8 combinations of shapes that it used last, each with
    weights of its own. What needs one graph, such as `save`, takes shapes, or is a
    method of the model that `at(shapes)` returns.

    Args:
        read: returns the model for a shape of each input.
        error: the error of reading the file without shapes.
    """

    known = "shapes"

    def __init__(
        self, read: Callable[[Mapping[str, tuple[int, ...]]], Model], error: SizeError
    ) -> None:
        super().__init__(error)
        self._read = read
        self._models: Recent[Key, Model] = Recent()

    def _needs_more(self) -> ModelError:
        return self._needs_shapes()

    def _needs_shapes(self, call: str = "") -> ModelError:
        """Return the error of a call that needs shapes, with one that would work."""
        fix = self._error.fix
        if call:
            shapes = shapes_example(self.inputs)
            fix = f"Call {call}(path, {shapes}), or with the shapes that you have"
        return ModelError(self._error.problem, fix)

    @explain_wrong_calls
    def at(self, input_shapes: Shapes) -> Model:
        """Return the model for these input shapes.

        Args:
            input_shapes: the shape of each input by name, or of the only input.

        Raises:
            ModelError: the file cannot be read for these shapes.
            DataError: the shapes contradict the sizes of the model or name unknown
                inputs; or one shape is given for several inputs.
        """
        shapes = chosen(self.inputs, input_shapes)
        return self._models.get(tuple(shapes.values()), lambda: self._read(shapes))

    @explain_wrong_calls
    def to(self, device: Device | str) -> Model | PlacedModel:
        """Return the model on a device, where each model for shapes moves, too.

        Raises:
            OptionError: `device` is "auto".
            DeviceError: there is no such device, or it lacks a type of the inputs, or,
                at a call, a type of the weights.
        """
        if device == AUTO:
            problem = f"device={AUTO!r} needs one graph, and this model has one a shape"
            fix = f"Load it with {shapes_example(self.inputs)}, or name the device"
            raise OptionError(problem, fix, "to")
        place = find_device(device)
        return self if place is cpu else PlacedSizedModel(self, place)

    def _for(self, feeds: Mapping[str, Any]) -> Model:
        return self.at({name: feeds[name].shape for name in self.inputs})

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model; return its result, or a tuple if it has several.

        A first call for new shapes reads the file.

        Args:
            inputs: tensors or NumPy arrays in the order of `inputs`; or pass them by
                name, as keywords or in one dict.

        Raises:
            DataError: an input is missing or unknown, or has a wrong type or shape.
            ModelError: the file cannot be read for these shapes.
        """
        ordered = in_order(self.inputs, inputs, named)
        model = None if ordered is None else self._models.found(_shapes(ordered))
        if ordered is None or model is None:
            feeds = self.fed(*inputs, **named)
            model, ordered = self._for(feeds), tuple(feeds.values())
        return model(*ordered)

    @explain_wrong_calls
    def plan(self, input_shapes: Shapes | None = None) -> Plan:
        """Return the plan for these shapes; see `Model.plan`."""
        if input_shapes is None:
            raise self._needs_shapes()
        return self.at(input_shapes).plan()

    @explain_wrong_calls
    def save(self, path: Path, input_shapes: Shapes | None = None) -> None:
        """Write an ONNX file for these shapes; see `Model.save`."""
        if input_shapes is None:
            raise self._needs_shapes("save")
        self.at(input_shapes).save(path)

    @explain_wrong_calls
    def compile(
        self,
        path: Path,
        input_shapes: Shapes | None = None,
        *,
        isas: Sequence[str] = (),
    ) -> None:
        """Write a stored plan for these shapes; see `Model.compile`."""
        if input_shapes is None:
            raise self._needs_shapes("compile")
        self.at(input_shapes).compile(path, isas=isas)

    def _changed(self, change: Callable[[Model], Model]) -> SizedModel:
        """Return the model that is changed for each combination of shapes."""
        made = SizedModel(lambda shapes: change(self.at(shapes)), self._error)
        # Wrong options raise now, for the shapes that were used last.
        key = self._models.last
        if key is not None:
            made.at(dict(zip(self.inputs, key, strict=True)))
        return made

    def __repr__(self) -> str:
        given = ", ".join(f"{name}: {spec}" for name, spec in self.inputs.items())
        return f"SizedModel({given}; {len(self._models)} combinations of shapes)"


def _shapes(inputs: tuple[Any, ...]) -> Key:
    """Return the shapes of tensors and arrays; () stands for those of other inputs."""
    own = (Tensor, np.ndarray)
    return tuple(tuple(x.shape) if isinstance(x, own) else () for x in inputs)
