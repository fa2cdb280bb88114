"""Other element types, constants, and what changes nothing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.quant.model.onnx.build import Builder, Operator, element_type
from mdtensor.quant.model.onnx.operators.table import reads
from mdtensor.quant.model.operators.arguments import fixed_shape


@reads("Cast", "CastLike")
def cast(g: Builder, op: Operator) -> None:
    """Integers keep their low bits in another integer type.

    What is too large for a floating type becomes an infinity, and a float that an
    integer type does not hold the nearest it does.
    """
    dtype = element_type(target_code(g, op), str(op))
    before = g.specs[str(op.inputs[0])].dtype
    wraps = dtype.is_floating or (dtype.is_integer and before.is_integer)
    casting = "wrap" if wraps else "saturate"
    g.call(op, md.astype, op.inputs[0], dtype, casting=casting)


def target_code(g: Builder, op: Operator) -> int:
    """The number of the element type that Cast, or CastLike, gives."""
    return int(op.get("to")) if op.kind == "Cast" else g.code(op.inputs[1])


@reads("Identity")
def identity(g: Builder, op: Operator) -> None:
    g.call(op, md.astype, op.inputs[0], g.specs[str(op.inputs[0])].dtype)


@reads("Dropout")
def dropout(g: Builder, op: Operator) -> None:
    if op.input(2) and bool(g.known(op, 2, "training_mode")):
        raise op.refusal("is in training mode", "Export the model for inference")
    identity(g, op)
    x = op.inputs[0]
    g.also(op, 1, md.full_like, x, fill_value=True, dtype=md.bool)


@reads("Constant")
def constant(g: Builder, op: Operator) -> None:
    name, value = next(iter(op.attributes.items()), ("", None))
    kinds: dict[str, Any] = {"value_float": np.float32, "value_floats": np.float32}
    kinds |= {"value_int": np.int64, "value_ints": np.int64}
    if name != "value" and name not in kinds:
        raise op.refusal(f"has {name or 'no value'}", "Supported are tensors, numbers")
    _enter(g, op, np.asarray(value, kinds.get(name)))


def _enter(g: Builder, op: Operator, array: Any) -> None:
    """Add the result of an operator that is known while reading."""
    try:
        g.enter(op.outputs[0], array)
    except (MdtensorError, TypeError) as error:
        problem = "holds elements that are not supported"
        raise op.refusal(f"{problem}: {getattr(error, 'problem', error)}") from None


@reads("ConstantOfShape")
def constant_of_shape(g: Builder, op: Operator) -> None:
    value = op.get("value", np.zeros(1, np.float32))
    shape = g.integers(op, 0, "the shape")
    _enter(g, op, np.full(shape, value.reshape(-1)[0], value.dtype))


@reads("Range")
def range_of(g: Builder, op: Operator) -> None:
    bounds = [g.known(op, i, "a bound").reshape(()) for i in range(3)]
    numbers = [b.astype(np.float64) if b.dtype.kind == "V" else b for b in bounds]
    dtype = g.specs[str(op.inputs[0])].dtype
    g.constant(op.outputs[0], md.arange(*(n.item() for n in numbers), dtype=dtype))


@reads("EyeLike")
def eye_like(g: Builder, op: Operator) -> None:
    rows, columns = fixed_shape(g, op, op.inputs[0])
    dtype = g.specs[str(op.inputs[0])].dtype
    if op.get("dtype"):
        dtype = element_type(op.get("dtype"), str(op))
    g.constant(op.outputs[0], md.eye(rows, columns, k=op.get("k", 0), dtype=dtype))


@reads("Size")
def size(g: Builder, op: Operator) -> None:
    count = prod(fixed_shape(g, op, op.inputs[0]))
    g.constant(op.outputs[0], md.asarray(np.array(count, np.int64)))
