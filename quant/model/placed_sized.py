"""Models on a device whose files can only be read for known input shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mdtensor import Device, TensorSpec
from mdtensor.graph import Graph
from mdtensor.graph.inputs import Shapes, checked_feeds, chosen
from mdtensor.quant.model.placed import PlacedModel
from mdtensor.quant.model.recent import Recent

Shape = tuple[int, ...]


class PlacedSizedModel(PlacedModel):
    """A `SizedModel` on a device: each model for the shapes of a call moves there.

    Args:
        model: the model on the host.
        device: where it runs.

    Raises:
        DeviceError: the device lacks a type of the inputs.
    """

    def __init__(self, model: Any, device: Device) -> None:
        self.device, self._model = device, model
        self._placed: Recent[tuple[Shape, ...], PlacedModel] = Recent()
        self._inputs = {
            name: replace(spec, type=spec.type.with_device(device))
            for name, spec in model.inputs.items()
        }

    @property
    def graph(self) -> Graph:  # type: ignore[override]
        """Raise, since each combination of shapes has a graph of its own.

        Raises:
            ModelError: always; it names the node that needs a size.
        """
        found: Graph = self._model.graph
        return found

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input by name; -1 stands for any size."""
        return self._inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        found: tuple[str, ...] = self._model.outputs
        return found

    def at(self, input_shapes: Shapes) -> PlacedModel:
        """Return the model on the device for these input shapes.

        It keeps the models for the 8 combinations of shapes that it used last.

        Raises:
            ModelError: the file cannot be read for these shapes.
            DataError: as `SizedModel.at`.
            DeviceError: the device lacks a type of the constants.
        """
        shapes = chosen(self.inputs, input_shapes)

        def placed() -> PlacedModel:
            return PlacedModel(self._model.at(shapes), self.device)

        return self._placed.get(tuple(shapes.values()), placed)

    def run(
        self,
        feeds: Mapping[str, Any],
        observe: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Return the outputs by name; `observe` gets each name and tensor."""
        self._require_here(feeds)
        # What is missing or wrong raises before the file is read.
        checked = checked_feeds(self.inputs, feeds)
        shapes = {name: x.shape for name, x in checked.items()}
        return self.at(shapes).run(checked, observe)

    def __repr__(self) -> str:
        return f"PlacedSizedModel({self.device}, {self._model!r})"
