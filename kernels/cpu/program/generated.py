"""The renderer of elementwise formulas to numba: one loop of its own for a chain.

    def chain(table, numbers, x0, x1, x2, x3, start, out):
        first = np.uintp(start)
        for i in range(np.uintp(len(out))):
            j = first + i
            v4 = np.float32(x0[j] * x1[j])
            v5 = np.float32(v4 + x2[j])
            out[i] = hardswish(v5)

The text has the arguments of `run_chain`, and reads limits and constants from
`numbers`, so formulas that differ in numbers or shapes share it. Expressions are those
of `float_elementwise.py`, or its functions themselves.
"""

import hashlib
import linecache
import sys
from functools import cache
from types import ModuleType

import numpy as np

from mdtensor.kernels.cpu.generic import (
    activation,
    float_functions,
    narrowing,
    opcodes as ops,
)
from mdtensor.kernels.cpu.jit import kernel

#: The expression of each instruction on values {a} and {b} and numbers {low}, {high}.
EXPRESSIONS = {
    ops.KEEP: "{a}",
    ops.RELU: "activate({a}, RELU, {low}, {high})",
    ops.CLAMP: "clamp({a}, {low}, {high})",
    ops.LEAKY_RELU: "activate({a}, LEAKY_RELU, {low}, {high})",
    ops.HARDSIGMOID: "activate({a}, HARDSIGMOID, {low}, {high})",
    ops.HARDSWISH: "hardswish({a})",
    ops.ADD: "np.float32({a} + {b})",
    ops.SUB: "np.float32({a} - {b})",
    ops.MUL: "np.float32({a} * {b})",
    ops.DIV: "np.float32({a} / {b})",
    ops.MAXIMUM: "{a} if {a} > {b} or {a} != {a} else {b}",
    ops.MINIMUM: "{a} if {a} < {b} or {a} != {a} else {b}",
    ops.NEGATIVE: "-{a}",
    ops.ABS: "abs({a})",
    ops.SQRT: "np.sqrt({a})",
    ops.SQUARE: "np.float32({a} * {a})",
    ops.RECIPROCAL: "np.float32(ONE / {a})",
    ops.ADD_NUMBER: "np.float32({a} + {low})",
    ops.MUL_NUMBER: "np.float32({a} * {low})",
    ops.DIV_NUMBER: "np.float32({a} / {low})",
    ops.SUB_FROM: "np.float32({low} - {a})",
    ops.DIV_INTO: "np.float32({low} / {a})",
    ops.ROOT: "root({a})",
    ops.TO_FLOAT16: "nearest_float16({a})",
    ops.SOFTPLUS: "softplus({a}, {low}, {high})",
    ops.TO_BFLOAT16: "nearest_bfloat16({a})",
}
NAMES = ("exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh")
EXPRESSIONS |= {getattr(ops, name.upper()): f"{name}({{a}})" for name in NAMES}
#: What texts read by name.
NAMESPACE = {
    name: getattr(float_functions, name) for name in (*NAMES, "hardswish", "softplus")
}
NAMESPACE |= {"root": float_functions.root, "np": np, "ONE": activation.ONE}
NAMESPACE |= {"activate": activation.activate, "clamp": activation.clamp}
NAMESPACE |= {"nearest_float16": narrowing.nearest_float16}
NAMESPACE |= {"nearest_bfloat16": narrowing.nearest_bfloat16}
NAMESPACE |= {x: getattr(ops, x) for x in ("RELU", "LEAKY_RELU", "HARDSIGMOID")}
HEAD = "def {name}(table, numbers, x0, x1, x2, x3, start, out):"


def render(formula):
    """Return the text of a formula, with `{name}` for its name; None if it has none.

    A text reads inputs of the shape of the result, or of one element.
    """
    operations = {one.operation for one in formula.instructions}
    if formula.length or not operations <= EXPRESSIONS.keys():
        return None
    values, lines = {}, ["first = np.uintp(start)"]
    for i, one in enumerate(formula.inputs):
        if not one.is_whole and any(one.jumps):
            return None
        values[i] = f"x{i}[j]" if one.is_whole else f"s{i}"
        if not one.is_whole:
            lines.append(f"s{i} = x{i}[np.uintp(0)]")
    count = len(formula.instructions)
    for i in range(len(formula.constants)):
        values[-1 - i] = f"k{i}"
        lines.append(f"k{i} = numbers[np.uintp({2 * count + i})]")
    body = []
    for i, one in enumerate(formula.instructions):
        text, reads = EXPRESSIONS[one.operation], [values[x] for x in one.reads]
        for at, number in enumerate(("low", "high")):
            if f"{{{number}}}" in text:
                lines.append(f"{number}{i} = numbers[np.uintp({2 * i + at})]")
        name = values[ops.INPUTS + i] = f"v{ops.INPUTS + i}"
        target = "out[i]" if i + 1 == count else name
        given = {"low": f"low{i}", "high": f"high{i}", "a": reads[0], "b": reads[-1]}
        body.append(f"{target} = {text.format(**given)}")
    loop = ["for i in range(np.uintp(len(out))):", "    j = first + i"]
    lines += [*loop, *(f"    {line}" for line in body)]
    return "\n    ".join([HEAD, *lines]) + "\n"


# The name is made of the text, so that another process finds the code in the cache
# (decision 0068).
@cache
def compiled(text):
    """Return the function that numba compiles from a text of `render`."""
    name = f"chain_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    place, text = f"<mdtensor {name}>", text.replace("{name}", name)
    module = ModuleType(name, text)
    vars(module).update(NAMESPACE)
    # A traceback shows the line, and loaded code finds its module.
    linecache.cache[place] = len(text), None, text.splitlines(True), place
    exec(compile(text, place, "exec"), vars(module))
    found = kernel(vars(module)[name])
    setattr(module, name, found)
    sys.modules[name] = module
    return found
