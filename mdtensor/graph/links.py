"""Calls of a trace as instructions on float32, from which `chains.py` makes loops.

    md.exp(%3)                            EXP
    md.mean(%3, axis=-1, keepdims=True)   ROW_SUM, DIV_NUMBER

A call becomes a link if its instructions have the bytes of the call: IEEE 754 decides
them, or the call runs the same compiled function, or it sums rows in the same order. A
call of float16 or bfloat16 is one of float32 and a rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdtensor.dtypes import DType, bfloat16, float16, float32
from mdtensor.errors import MdtensorError, OptionError
from mdtensor.generics.arithmetic import pow
from mdtensor.generics.reduction import max, mean, min, sum
from mdtensor.graph.calls import Call, Output, spec_of
from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.program.elementwise import Elementwise, Instruction, walk
from mdtensor.ops import reduction
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

#: Instructions with the bytes of calls.
SAME = frozenset(
    (
        *(ops.RELU, ops.CLAMP, ops.LEAKY_RELU),
        *(ops.HARDSIGMOID, ops.HARDSWISH),
        *(ops.ADD, ops.SUB, ops.MUL, ops.DIV, ops.MAXIMUM, ops.MINIMUM),
        *(ops.NEGATIVE, ops.ABS, ops.SQRT, ops.SQUARE, ops.RECIPROCAL),
        *(ops.ADD_NUMBER, ops.MUL_NUMBER, ops.DIV_NUMBER),
        *(ops.SUB_FROM, ops.DIV_INTO),
        *(ops.EXP, ops.LOG, ops.TANH, ops.ERF),
        *(ops.SIGMOID, ops.SILU, ops.GELU, ops.GELU_TANH),
        *(ops.SIN, ops.COS, ops.SOFTPLUS),
        *(ops.TO_FLOAT16, ops.TO_BFLOAT16),
    )
)
#: Operations whose instructions are exact, but whose NumPy function is not.
INEXACT = (pow,)
#: Instructions that round to a narrow type.
ROUNDINGS: dict[DType, int] = {float16: ops.TO_FLOAT16, bfloat16: ops.TO_BFLOAT16}
#: Instructions whose result is one of their numbers, or another one of the same type.
EXACT = frozenset((ops.RELU, ops.NEGATIVE, ops.ABS))
#: Instructions that order -0 and 0 otherwise than calls of narrow floats.
UNORDERED = frozenset((ops.MAXIMUM, ops.MINIMUM))
#: Instructions of reductions; a mean divides its sum by the length of a row.
REDUCTIONS: dict[Any, int] = {
    sum: ops.ROW_SUM,
    mean: ops.ROW_SUM,
    max: ops.ROW_MAX,
    min: ops.ROW_MIN,
}
#: Elements of the longest row: a loop keeps some blocks of it in the second cache.
LONGEST_ROW = 8192


@dataclass(frozen=True)
class Link:
    """A call as instructions on its tensors.

    Args:
        call: the call.
        step: its instructions; value i is tensor i.
        tensors: its arguments that are tensors.
        reduces: whether it reduces rows of its tensor.
    """

    call: Call
    step: Elementwise
    tensors: tuple[Any, ...]
    reduces: bool = False

    @property
    def dtype(self) -> DType:
        """Return the type of its tensors and of its result."""
        found: DType = self.call.specs[0].type.dtype
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the result."""
        return self.call.specs[0].shape

    @property
    def domain(self) -> tuple[int, ...]:
        """Return the shape over which the instructions run."""
        return shape_of(self.tensors[0]) if self.reduces else self.shape


# Another instruction would give other bytes than the call (decision 0062).
def link_of(call: Call) -> Link | None:
    """Return a call as a Link; None if it has other bytes than its instructions.

    Its tensors must be broadcast along at most four separate axes.
    """
    spec = call.specs[0]
    is_whole = len(call.specs) == 1 and 0 not in spec.shape
    dtype = spec.type.dtype
    is_known = dtype is float32 or dtype in ROUNDINGS
    if not is_whole or not is_known or call.operation in INEXACT:
        return None
    if call.operation in REDUCTIONS:
        return _reduction(call) if dtype is float32 else None
    tensors = tuple(x for x in call.arguments if isinstance(x, (Output, Tensor)))
    if any(_spec(x).type.dtype is not dtype for x in tensors):
        return None
    try:
        step = _step(call)
        for x in tensors:
            walk(shape_of(x), spec.shape)
    except (MdtensorError, ValueError):
        return None
    is_same = isinstance(step, Elementwise) and all(
        one.operation in SAME for one in step.instructions
    )
    if is_same and dtype in ROUNDINGS:
        step = _rounded(step, dtype)
    return Link(call, step, tensors) if is_same and step is not None else None


# A call of narrow floats computes in float32 and rounds once (decision 0082).
def _rounded(step: Elementwise, dtype: DType) -> Elementwise | None:
    """Return a step that rounds its result to a narrow type, as its call does.

    It is None if a call of narrow floats computes something else.
    """
    made = step.instructions
    if any(one.operation in UNORDERED for one in made):
        return None
    if all(one.operation in EXACT for one in made):
        return step
    last = Instruction(ROUNDINGS[dtype], ops.INPUTS + len(made) - 1)
    return Elementwise(*made, last, constants=step.arrays)


def _reduction(call: Call) -> Link | None:
    """Return the link of a reduction of rows that keeps the axis; None of others."""
    (x,), options = call.arguments, call.options
    if not isinstance(x, (Output, Tensor)) or not call.specs[0].shape:
        return None
    shape, axis = shape_of(x), options.get("axis")
    is_last = type(axis) is int and axis in (-1, len(shape) - 1)
    is_plain = options.get("keepdims") is True and options.get("dtype") is None
    is_float = _spec(x).type.dtype is float32
    # A method of yours computes something else.
    method = call.select().method.implementation
    is_ours = method.__module__ == reduction.__name__
    if not (is_last and is_plain and is_float and is_ours and shape[-1] <= LONGEST_ROW):
        return None
    rows = [Instruction(REDUCTIONS[call.operation])]
    if call.operation is mean:
        rows.append(Instruction(ops.DIV_NUMBER, ops.INPUTS, low=shape[-1]))
    return Link(call, Elementwise(*rows), (x,), reduces=True)


def _step(call: Call) -> Any:
    """Return the step of a call.

    Raises:
        OptionError: the selected method does not have one for these arguments.
    """
    selection = call.select()
    prepare: Callable[..., Any] | None = selection.method.prepare
    if prepare is None:
        raise OptionError(f"{selection.method} does not have a compiled step")
    declared = selection.operation
    parameters = declared.signature.parameters
    omitted = declared.dispatched[len(call.arguments) :]
    dtype = call.specs[0].type.dtype
    given = [_row(x, dtype) for x in call.arguments]
    given += [parameters[name].default for name in omitted]
    return prepare(*given, **declared.fill(dict(call.options)))


def _row(x: Any, dtype: DType) -> Any:
    """Return a tensor as the spec of a row: walks broadcast it, not the step.

    A number is rounded to the type of a narrow result, as the call rounds it.
    """
    if isinstance(x, (Output, Tensor)):
        spec = _spec(x)
        found = TensorSpec(spec.type, (2,), spec.qparams)
        is_narrow = spec.type.dtype in ROUNDINGS
        return found.with_dtype(float32) if is_narrow else found
    if dtype in ROUNDINGS and isinstance(x, (int, float)):
        with np.errstate(over="ignore"):
            return float(np.asarray(x).astype(dtype.storage))
    return x


def _spec(x: Any) -> TensorSpec:
    return x.spec if isinstance(x, Output) else spec_of(x)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, or of the result of a call."""
    shape: tuple[int, ...] = _spec(x).shape
    return shape
