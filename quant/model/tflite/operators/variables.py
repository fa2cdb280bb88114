"""Readers of variables, which a streaming network keeps from call to call.

A graph of mdtensor is a function. So the value that a network reads from a variable is
an input of the model, and the value that it leaves there is a result. Both are numbers,
also if the file stores codes, so a result can be the input of the next call.
"""

from __future__ import annotations

from mdtensor import TensorSpec, float32, leaf
from mdtensor.quant.generics import quantize
from mdtensor.quant.model.onnx.build import Operator
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.elements import element_type, grid_of
from mdtensor.quant.model.tflite.operators.table import reads

#: Operators without a result.
WITHOUT_RESULT = ("ASSIGN_VARIABLE", "CALL_ONCE")


def key_of(op: Call) -> str:
    """Return the name of the variable that VAR_HANDLE stands for."""
    name = op.get("SharedName", b"") or op.outputs[0].encode()
    return bytes(name).decode(errors="replace")


@reads("VAR_HANDLE")
def var_handle(g: Reading, op: Call) -> None:
    g.handles[op.outputs[0]] = key_of(op)


@reads("CALL_ONCE")
def call_once(g: Reading, op: Call) -> None:
    """Read CALL_ONCE, whose graph sets variables; see `initial_values`."""


@reads("READ_VARIABLE")
def read_variable(g: Reading, op: Call) -> None:
    key = _key(g, op)
    if key not in g.variables:
        g.variables[key] = _add_state(g, op, key)
    g.alias(op, g.variables[key])


def _key(g: Reading, op: Call) -> str:
    handle = op.operand(0)
    if handle not in g.handles:
        raise op.error(f"reads {handle!r}, which is not a variable", "Export it again")
    return g.handles[handle]


def _add_state(g: Reading, op: Call, key: str) -> str:
    """Add an input of the model for the value of a variable before the call."""
    tensor = op.results[0]
    name = g.builder.fresh(key)
    grid = grid_of(tensor)
    dtype = element_type(tensor.kind, str(op)) if grid is None else float32
    g.builder.input(name, TensorSpec(leaf(dtype), tensor.shape))
    g.states[key] = name
    if grid is None:
        return name
    codes = g.builder.fresh(f"{name}.codes")
    first = Operator("QUANTIZE", f"{name}.quantize", (name,), (codes,), {}, 0)
    return g.builder.call(first, quantize, name, qparams=grid)


@reads("ASSIGN_VARIABLE")
def assign_variable(g: Reading, op: Call) -> None:
    g.variables[_key(g, op)] = op.operand(1)
