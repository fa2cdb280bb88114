"""Other element types, constants, and what changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.quant.model.build import Builder, Operator, element_type
from mdtensor.quant.model.operators.table import reads


@reads("Cast")
def cast(g: Builder, op: Operator) -> None:
    """Integers keep their low bits in another integer type.

    Of other numbers, one that the new type does not hold becomes the nearest it does.
    """
    dtype = element_type(op.get("to"), str(op))
    wraps = dtype.is_integer and g.specs[str(op.inputs[0])].dtype.is_integer
    casting = "wrap" if wraps else "saturate"
    g.call(op, md.astype, op.inputs[0], dtype, casting=casting)


@reads("Identity")
def identity(g: Builder, op: Operator) -> None:
    g.call(op, md.astype, op.inputs[0], g.specs[str(op.inputs[0])].dtype)


@reads("Dropout")
def dropout(g: Builder, op: Operator) -> None:
    if op.input(2) and bool(g.known(op, 2, "training_mode")):
        raise op.refusal("is in training mode", "Export the model for inference")
    identity(g, op)


@reads("Constant")
def constant(g: Builder, op: Operator) -> None:
    name, value = next(iter(op.attributes.items()), ("", None))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name != "value" and name not in kinds:
        raise op.refusal(f"has {name or 'no value'}", "Supported are tensors, numbers")
    array = np.asarray(value, kinds.get(name))
    g.constant(op.outputs[0], _tensor(op, array))


def _tensor(op: Operator, array: Any) -> Any:
    try:
        return md.asarray(array)
    except MdtensorError as error:
        problem = f"holds elements that are not supported: {error.problem}"
        raise op.refusal(problem) from None
