"""What waits for memory: elementwise, casts, reductions, to codes and back."""

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from bench.sizes.task import NUMEXPR, NUMPY, OURS, OUT, SCALE, TORCH, ZERO, Task

ELEMENTWISE, CASTS = "Elementwise", "Casts of float32"
REDUCTIONS, CODES = "Reductions", "To codes and back"


def node(kind: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def elementwise() -> list[Task]:
    found = []
    for name, theirs, text in (("add", "add", "a + b"), ("mul", "multiply", "a * b")):
        statements = {
            OURS: f"md.{name}(a, b)",
            NUMPY: f"np.{theirs}(a, b)",
            OUT: f"np.{theirs}(a, b, out)",
            NUMEXPR: f"ne.evaluate('{text}')",
            TORCH: f"torch.{name}(a, b)",
        }
        nodes = [node(name.title(), "a b")]
        found.append(Task(name, ELEMENTWISE, statements, nodes, 8, 4, "ab"))
    for name in ("exp", "tanh"):
        statements = {
            OURS: f"md.{name}(a)",
            NUMPY: f"np.{name}(a)",
            OUT: f"np.{name}(a, out)",
            NUMEXPR: f"ne.evaluate('{name}(a)')",
            TORCH: f"torch.{name}(a)",
        }
        found.append(
            Task(name, ELEMENTWISE, statements, [node(name.title(), "a")], 4, 4)
        )
    return found + chains()


def chains() -> list[Task]:
    """By operators, each of which makes a tensor, and as one function."""
    text = "a * b + c"
    nodes = [node("Mul", "a b", "ab"), node("Add", "ab c")]
    operators = {
        OURS: text,
        NUMPY: text,
        OUT: "np.add(np.multiply(a, b, out), c, out)",
        NUMEXPR: f"ne.evaluate('{text}')",
        TORCH: text,
    }
    once = operators | {OURS: "fma(a, b, c)", TORCH: "torch.addcmul(c, a, b)"}
    return [
        Task(name, ELEMENTWISE, statements, nodes, 12, 4, "abc")
        for name, statements in ((text, operators), (f"{text} at once", once))
    ]


def casts() -> list[Task]:
    found = []
    for name, written in (("float16", 2), ("bfloat16", 2), ("int8", 1)):
        dtype = "BFLOAT16" if name == "bfloat16" else f"np.{name}"
        statements = {
            OURS: f"md.astype(a, md.{name}, casting='wrap')",
            NUMPY: f"a.astype({dtype})",
            OUT: "(np.copyto(out, a, casting='unsafe'), out)[1]",
            TORCH: f"a.to(torch.{name})",
        }
        kind = getattr(TensorProto, name.upper())
        nodes = [node("Cast", "a", to=kind)]
        found.append(
            Task(f"as {name}", CASTS, statements, nodes, 4, written, result=name)
        )
    return found


def reductions() -> list[Task]:
    return [
        reduction(name, axis)
        for name in ("sum", "max", "mean")
        for axis in (None, 0, 1)
        if (name, axis) != ("mean", 0)
    ]


def reduction(name: str, axis: int | None) -> Task:
    """Of all elements, of columns (axis 0) or of rows."""
    option = "" if axis is None else f", axis={axis}"
    theirs = "amax" if name == "max" else name
    statements = {
        OURS: f"md.{name}(a{option})",
        NUMPY: f"np.{name}(a{option})",
        TORCH: f"torch.{theirs}(a{option})",
    }
    constants = {} if axis is None else {"axes": np.array([axis])}
    inputs = "a" if axis is None else "a axes"
    nodes = [node(f"Reduce{name.title()}", inputs, keepdims=0)]
    title = f"{name}{option}"
    return Task(title, REDUCTIONS, statements, nodes, 4, 0, axis=axis,
                constants=constants)  # fmt: skip


def codes() -> list[Task]:
    constants = {"scale": SCALE, "zero": np.int8(ZERO)}
    to_codes = {
        OURS: "quantize(a, qparams=GRID)",
        NUMPY: "np.clip(np.rint(a / SCALE) + ZERO, -128, 127).astype(np.int8)",
        TORCH: "torch.quantize_per_tensor(a, SCALE, ZERO, torch.qint8)",
    }
    back = {
        OURS: "dequantize(a)",
        NUMPY: "(a.astype(np.float32) - ZERO) * SCALE",
        TORCH: "a.dequantize()",
    }
    quantized = [node("QuantizeLinear", "a scale zero")]
    numbers = [node("DequantizeLinear", "a scale zero")]
    # What divides in float32 may round a near tie to the other side.
    return [
        Task("quantize", CODES, to_codes, quantized, 4, 1, result="int8",
             constants=constants, tolerance=1),
        Task("dequantize", CODES, back, numbers, 1, 4, source="int8",
             constants=constants),
    ]  # fmt: skip


TASKS = [*elementwise(), *casts(), *reductions(), *codes()]
