"""Models on a device: each node is a call of an operation there.

model = load("model.onnx").to("emucuda")
y = model(x.to("emucuda"))          # nothing moves by itself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mdtensor import Device, Tensor, TensorSpec
from mdtensor.errors import DeviceError, type_and_shape
from mdtensor.extend import find_device
from mdtensor.graph import Graph
from mdtensor.graph.inputs import by_name


class PlacedModel:
    """A graph whose constants are on a device, and which runs there.

    Args:
        model: the model on the host.
        device: where it runs.

    Raises:
        DeviceError: the device lacks a type of the constants.
    """

    def __init__(self, model: Any, device: Device) -> None:
        self.device, self._model = device, model
        graph: Graph = model.graph
        constants = {name: x.to(device) for name, x in graph.constants.items()}
        inputs = {
            name: replace(spec, type=spec.type.with_device(device))
            for name, spec in graph.inputs.items()
        }
        self.graph = replace(graph, inputs=inputs, constants=constants)

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """Return type and shape of each input by name; -1 stands for any size."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the names of the results."""
        return self.graph.outputs

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the model; return its result, or a tuple if it has several.

        Args:
            inputs: tensors on the device in the order of `inputs`, or by name.

        Raises:
            DeviceError: an input is not on the device.
            DataError: an input is missing or unknown, or has a wrong type or shape.
            NoMethodError: the device lacks an operation of the model.
        """
        found = self.run(by_name(self.inputs, inputs, named))
        results = tuple(found[name] for name in self.outputs)
        return results[0] if len(results) == 1 else results

    def run(
        self,
        feeds: Mapping[str, Any],
        observe: Callable[[str, Any], None] | None = None,
    ) -> dict[str, Any]:
        """Return the outputs by name; `observe` gets each name and tensor."""
        self._require_here(feeds)
        return self.graph.run(feeds, observe)

    def _require_here(self, feeds: Mapping[str, Any]) -> None:
        """Raise if an input is not on the device.

        Raises:
            DeviceError: it is elsewhere, or no tensor.
        """
        for name, x in feeds.items():
            if not isinstance(x, Tensor) or x.device is not self.device:
                problem = f"input {name!r} is {type_and_shape(x)}, not on {self.device}"
                raise DeviceError(problem, f'Use asarray(x).to("{self.device}")')

    def to(self, device: Device | str) -> Any:
        """Return the model on another device, or on the CPU."""
        is_here = find_device(device) is self.device
        return self if is_here else self._model.to(device)

    def __repr__(self) -> str:
        return f"PlacedModel({self.device}, {self.graph!r})"
