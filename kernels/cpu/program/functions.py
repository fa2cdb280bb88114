"""Calls of the function of a kind of step, by its address.

The loop over the rows of a program is compiled once and reads the address of each
function from its row. So a process compiles or loads only the kinds that its programs
have. Addresses hold for one process: `Layout` sets them, see `invoke`.
"""

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload

from mdtensor.kernels.cpu.program import STEP, interpret

BYTES = types.Array(types.uint8, 1, "C")
#: Types of the arguments of a function of `interpret`.
ARGUMENTS = (numba.typeof(np.zeros(0, STEP)), types.int64, *[BYTES] * 5)


def address(function):
    """Return the address of a function of `interpret`, compiled on first use."""
    function.compile(ARGUMENTS)
    compiled = function.overloads[ARGUMENTS]
    return compiled.library.get_pointer_to_function(compiled.fndesc.mangled_name)


def call_function(kind, function, rows, i, x, y, out, scratch, constants):
    """Call the function of a kind on one row; `function` is its address."""
    interpret.INVOKE[kind](rows, i, x, y, out, scratch, constants)


@overload(call_function, inline="always")
def _call_function(kind, function, rows, i, x, y, out, scratch, constants):
    def call(kind, function, rows, i, x, y, out, scratch, constants):
        _call(function, rows, i, x, y, out, scratch, constants)

    return call


@intrinsic
def _call(typingctx, function, rows, i, x, y, out, scratch, constants):
    """Call the function at an address by numba's own calling convention."""

    def emit(context, b, signature, arguments):
        place, *values = arguments
        kind = context.call_conv.get_function_type(types.none, ARGUMENTS)
        callee = b.inttoptr(place, kind.as_pointer())
        status, _ = context.call_conv.call_function(
            b, callee, types.none, ARGUMENTS, values
        )
        with b.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(b, status)
        return context.get_dummy_value()

    return types.none(types.int64, *ARGUMENTS), emit
