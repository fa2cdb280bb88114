"""mdtensor as a backend of ONNX: what its own test suite runs models with.

    from mdtensor.quant import onnx_backend

    onnx_backend.run_model(onnx.load("model.onnx"), [x])

Operators run one by one, through mdtensor's operations; codes with scales beside them
become quantized tensors, rounded by the rule `onnx`. For a model that is run often, use
`quant.load`, which plans it.

Source: ONNX, `onnx.backend.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdtensor.errors import DataError, DeviceError, ModelError
from mdtensor.quant.model.onnx.evaluate import QLINEAR_READERS, Evaluation
from mdtensor.quant.model.onnx.files import onnx_package

try:
    from onnx import TensorProto, defs, helper
    from onnx.backend.base import Backend as _Backend, BackendRep, namedtupledict
except ImportError:
    onnx_package()  # says what to install
    raise


class Prepared(BackendRep):
    """A model that is ready to run.

    Args:
        evaluation: what runs.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs as NumPy arrays, by position and by name.

        Args:
            inputs: arrays in the order of the model's inputs, or by name.
            kwargs: nothing; the interface has it.

        Raises:
            DataError: inputs that the model has not.
            ModelError: an operator cannot do what it is asked; the error names it.
        """
        if isinstance(inputs, dict):
            inputs = self._order_inputs(inputs)
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        outputs = self.evaluation.outputs
        return namedtupledict("Outputs", outputs)(*self.evaluation(inputs))

    def _order_inputs(self, inputs: dict[str, Any]) -> list[Any]:
        names = self.evaluation.inputs
        if set(inputs) != set(names):
            listed, given = (", ".join(map(repr, n)) or "none" for n in (names, inputs))
            raise DataError(
                f"the model has the inputs {listed}, given are {given}",
                "Give each input once, by its name",
            )
        return [inputs[name] for name in names]


class Backend(_Backend):
    """ONNX's interface to what runs models."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator of the model is one that runs here."""
        try:
            cls.prepare(model, device, **kwargs)
        except (ModelError, DeviceError):
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """The model, ready to run.

        Args:
            model: a ModelProto.
            device: "CPU".
            kwargs: nothing; the interface has it.

        Raises:
            ModelError: an operator that is not supported; the error names it, its
                node and the operator set.
            DeviceError: another device.
        """
        if not cls.supports_device(device):
            raise DeviceError(f"there is no device {device!r} for models", "Use 'CPU'")
        return Prepared(Evaluation(model, QLINEAR_READERS))

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one operator.

        Args:
            node: a NodeProto.
            inputs: arrays, in its order.
            device: "CPU".
            outputs_info: nothing; outputs have the types that they have.
            kwargs: `opset_version`; by default the newest that the package knows.
        """
        version = kwargs.get("opset_version", defs.onnx_opset_version())
        names = [name for name in node.input if name]
        unknown = TensorProto.UNDEFINED
        inner, outer = (
            [helper.make_tensor_value_info(name, unknown, None) for name in side]
            for side in (dict.fromkeys(names), filter(None, node.output))
        )
        graph = helper.make_graph([node], "node", inner, outer)
        imports = [helper.make_opsetid(node.domain, version)]
        model = helper.make_model(graph, opset_imports=imports)
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run there: on the CPU only."""
        return device.partition(":")[0] == "CPU"


def run_model(model: Any, inputs: Sequence[Any], device: str = "CPU") -> Any:
    """The outputs of a model, see `Backend.prepare` and `Prepared.run`."""
    return Backend.prepare(model, device).run(inputs)


prepare, run_node = Backend.prepare, Backend.run_node
supports_device = Backend.supports_device
