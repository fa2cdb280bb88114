"""mdtensor as a backend of ONNX, the interface that ONNX's own test suite uses.

    from mdtensor.quant import onnx_backend

    onnx_backend.run_model(onnx.load("model.onnx"), [x])

Operators run one by one, as operations of mdtensor. Codes with scales as further inputs
become quantized tensors, rounded by the rule `onnx`. For a model that runs often, use
`quant.load`, which plans it.

Source: ONNX, `onnx.backend.base`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import DataError, DeviceError, ModelError
from mdtensor.quant.model.onnx.evaluate import QLINEAR_READERS, Evaluation
from mdtensor.quant.model.onnx.files import onnx_package
from mdtensor.quant.model.onnx.nodes import ML, ML_OPSETS

try:
    from onnx import TensorProto, defs, helper
    from onnx.backend.base import Backend as _Backend, BackendRep, namedtupledict
except ImportError:
    # Raises an error that names the package to install.
    onnx_package()
    raise


#: Arrays in the order of the model, or by name; or the only one.
Inputs = Sequence[Any] | npt.NDArray[Any] | dict[str, Any]


class Prepared(BackendRep):
    """A model that is ready to run.

    Args:
        evaluation: the model.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation

    def run(self, inputs: Inputs, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs as NumPy arrays, by position and by name.

        Args:
            inputs: arrays in the order of the model's inputs, or by name.
            kwargs: ignored; part of the interface.

        Raises:
            DataError: the inputs are not the inputs of the model.
            ModelError: an operator does not support its arguments; the error names it.
        """
        if isinstance(inputs, dict):
            inputs = self._order_inputs(inputs)
        elif isinstance(inputs, np.ndarray):
            inputs = [inputs]
        outputs = self.evaluation.outputs
        return namedtupledict("Outputs", outputs)(*self.evaluation(inputs))

    def _order_inputs(self, inputs: dict[str, Any]) -> list[Any]:
        """Return inputs given by name in the order of the model."""
        names = self.evaluation.inputs
        if set(inputs) != set(names):
            listed, given = (", ".join(map(repr, n)) or "none" for n in (names, inputs))
            raise DataError(
                f"the model has the inputs {listed}, but got {given}",
                "Pass each input once, by its name",
            )
        return [inputs[name] for name in names]


class Backend(_Backend):
    """ONNX's interface to backends, implemented by mdtensor."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether every operator of the model can run here."""
        try:
            cls.prepare(model, device, **kwargs)
        except (ModelError, DeviceError):
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Return the model, ready to run.

        Args:
            model: a ModelProto.
            device: "CPU".
            kwargs: ignored; part of the interface.

        Raises:
            ModelError: an operator is not supported; the error names it, its node and
                the operator set.
            DeviceError: `device` is not the CPU.
        """
        if not cls.supports_device(device):
            raise DeviceError(f"there is no device {device!r} for models", "Use 'CPU'")
        return Prepared(Evaluation(model, QLINEAR_READERS))

    @classmethod
    def run_node(
        cls,
        node: Any,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: object = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one operator.

        Args:
            node: a NodeProto.
            inputs: arrays, in the order of the operator's inputs.
            device: "CPU".
            outputs_info: ignored; the operator defines the types of its outputs.
            kwargs: `opset_version`, by default the newest of the package onnx.
        """
        newest = ML_OPSETS[-1] if node.domain == ML else defs.onnx_opset_version()
        version = kwargs.get("opset_version", newest)
        # A model of one node, because only models can be prepared. An operator may read
        # an input twice, but a graph must list it once.
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
        """Return whether models run on the device: only on the CPU."""
        return device.partition(":")[0] == "CPU"


def run_model(model: Any, inputs: Inputs, device: str = "CPU") -> tuple[Any, ...]:
    """Return the outputs of a model; see `Backend.prepare` and `Prepared.run`."""
    return Backend.prepare(model, device).run(inputs)


prepare, run_node = Backend.prepare, Backend.run_node
supports_device = Backend.supports_device
