"""Shifts and powers of integers by a count that a machine does not define.

A processor shifts by the count modulo 64, or to 0, and numba's power of an integer to a
negative exponent is no number. `CheckedCompiler` calls the functions here in place of
the operators `<<`, `>>` and `**`, unless the count is a constant that is in range.

    x << n, x >> n   as Python for n ≥ 0, modulo 2**64; else raise ValueError
    x ** n           of integers raise ValueError for n < 0

Functions that the user compiled himself keep numba's operators.
"""

import operator

import numpy as np
from numba import types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import build_definitions, find_const, guard, mk_unique_var
from numba.core.untyped_passes import IRProcessing
from numba.extending import overload

from mdtensor.kernels.cpu.user.views import compiled

#: The largest count of a shift of 64 bits.
MOST = 63


def _stand_in(function, checked):
    """Return a function that calls `checked` for two integers, else `function`."""

    def stand_in(x, n):
        raise NotImplementedError

    def plain(x, n):
        return function(x, n)

    # Errors of types name the operator.
    stand_in.__name__ = function.__name__

    @overload(stand_in, jit_options={"error_model": "numpy"})
    def choose(x, n):
        kinds = [types.unliteral(kind) for kind in (x, n)]
        return checked if all(isinstance(k, types.Integer) for k in kinds) else plain

    return stand_in


# `min` of a uint64 and a signed integer would be a float.
@compiled
def within(n):
    """Return the count as an int64, or `MOST` if it is larger."""
    return np.int64(n) if n < MOST else np.int64(MOST)


def _left(x, n):
    if n < 0:
        raise ValueError("negative shift count")
    shifted = x << within(n)
    return shifted << 1 if n > MOST else shifted


def _right(x, n):
    if n < 0:
        raise ValueError("negative shift count")
    shifted = x >> within(n)
    return shifted >> 1 if n > MOST else shifted


def _power(x, n):
    if n < 0:
        raise ValueError("negative power")
    return x**n


#: The function in place of each operator, and the largest constant that needs none.
CHECKED = {
    operator.lshift: (_stand_in(operator.lshift, _left), MOST),
    operator.rshift: (_stand_in(operator.rshift, _right), MOST),
    operator.pow: (_stand_in(operator.pow, _power), float("inf")),
}
IN_PLACE = {
    operator.ilshift: operator.lshift,
    operator.irshift: operator.rshift,
    operator.ipow: operator.pow,
}


# LLVM leaves such shifts undefined, so bytes depended on the CPU (decision 0074).
@register_pass(mutates_CFG=False, analysis_only=False)
class CheckCounts(FunctionPass):
    """Replace operators by calls, before types are known."""

    _name = "check_counts"

    def __init__(self):
        FunctionPass.__init__(self)

    def run_pass(self, state):
        """Return True: all blocks were written anew."""
        code = state.func_ir
        for block in code.blocks.values():
            block.body = [
                line for old in block.body for line in _lines(code, block, old)
            ]
        code._definitions = build_definitions(code.blocks)
        return True


def _lines(code, block, line):
    """Return the lines in place of one, which assigns a variable."""
    value = getattr(line, "value", None)
    if getattr(value, "op", "") not in ("binop", "inplace_binop"):
        return [line]
    function, most = CHECKED.get(IN_PLACE.get(value.fn, value.fn), (None, 0))
    known = guard(find_const, code, value.rhs)
    is_plain = isinstance(known, int | float | complex)
    is_whole = is_plain and isinstance(known, int)
    if function is None or (is_plain and not (is_whole and not 0 <= known <= most)):
        return [line]
    name = ir.Var(block.scope, mk_unique_var("$checked"), line.loc)
    called = ir.Expr.call(name, (value.lhs, value.rhs), (), line.loc)
    found = ir.Global(function.__name__, function, line.loc)
    return [
        ir.Assign(found, name, line.loc),
        ir.Assign(called, line.target, line.loc),
    ]


class CheckedCompiler(CompilerBase):
    """numba's compiler with `CheckCounts`."""

    def define_pipelines(self):
        """Return numba's only pipeline, with one pass more."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(CheckCounts, IRProcessing)
        passes.finalize()
        return [passes]
