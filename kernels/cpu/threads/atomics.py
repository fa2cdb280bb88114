"""Words of memory that threads share: atomic access, waiting, the clock.

A word is an element of an int64 array. All threads see all changes in one order.
Waiting needs the futex of Linux. Where `words.CAN_WAIT` is false, call nothing of
this module.
"""

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from mdtensor.kernels.cpu.isa import IS_ARM
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.threads.words import FUTEX
from mdtensor.kernels.cpu.vectors import I32, I64, address_of

FUTEX_WAIT, FUTEX_WAKE = 128, 129  # of this process alone
EVERYBODY = 2**31 - 1
# The number of a clock that never goes back.
MONOTONIC = 1
ORDER = "seq_cst"

#: A system call: its number, and six arguments.
system = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))
_clock_gettime = types.ExternalFunction(
    "clock_gettime", types.int32(types.int32, types.int64)
)


def _place(context, b, signature, arguments):
    """Return a pointer to the word arguments[1] of the array arguments[0]."""
    array = context.make_array(signature.args[0])(context, b, arguments[0])
    return b.gep(array.data, [arguments[1]])


@intrinsic
def load(typingctx, words, i):
    """Return words[i]."""

    def emit(context, b, signature, arguments):
        place = _place(context, b, signature, arguments)
        return b.load_atomic(place, ORDER, 8)

    return types.int64(words, types.int64), emit


@intrinsic
def store(typingctx, words, i, value):
    """Set words[i] = value."""

    def emit(context, b, signature, arguments):
        place = _place(context, b, signature, arguments)
        b.store_atomic(arguments[2], place, ORDER, 8)
        return context.get_dummy_value()

    return types.void(words, types.int64, types.int64), emit


@intrinsic
def add(typingctx, words, i, value):
    """Add `value` to words[i]; return the old value."""

    def emit(context, b, signature, arguments):
        place = _place(context, b, signature, arguments)
        return b.atomic_rmw("add", place, arguments[2], ORDER)

    return types.int64(words, types.int64, types.int64), emit


@intrinsic
def exchange(typingctx, words, i, value):
    """Set words[i] = value; return the old value."""

    def emit(context, b, signature, arguments):
        place = _place(context, b, signature, arguments)
        return b.atomic_rmw("xchg", place, arguments[2], ORDER)

    return types.int64(words, types.int64, types.int64), emit


@intrinsic
def replace(typingctx, words, i, known, value):
    """Set words[i] = value if it still is `known`; return whether it was."""

    def emit(context, b, signature, arguments):
        place = _place(context, b, signature, arguments)
        pair = b.cmpxchg(place, *arguments[2:], ORDER, ORDER)
        return b.extract_value(pair, 1)

    return types.boolean(words, types.int64, types.int64, types.int64), emit


@intrinsic
def pause(typingctx):
    """Hint to the processor core that this thread spins."""
    name, arguments = "llvm.x86.sse2.pause", []
    if IS_ARM:
        name, arguments = "llvm.aarch64.hint", [I32(1)]

    def emit(context, b, signature, _):
        kind = ir.FunctionType(ir.VoidType(), [a.type for a in arguments])
        function = b.module.globals.get(name) or ir.Function(b.module, kind, name)
        b.call(function, arguments)
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def bytes_at(typingctx, address, size):
    """Return `size` bytes at an address as a uint8 1-D array, not owned by it."""
    kind = types.Array(types.uint8, 1, "C")

    def emit(context, b, signature, arguments):
        array = context.make_array(kind)(context, b)
        data = b.inttoptr(arguments[0], array.data.type)
        populate_array(
            array,
            data=data,
            shape=[arguments[1]],
            strides=[I64(1)],
            itemsize=I64(1),
            meminfo=None,
        )
        return array._getvalue()

    return kind(types.int64, types.int64), emit


@kernel
def now():
    """Return the nanoseconds of a monotonic clock."""
    time = np.empty(2, np.int64)
    _clock_gettime(np.int32(MONOTONIC), address_of(time, 0))
    return time[0] * 1_000_000_000 + time[1]


@kernel
def sleep_while(words, i, known):
    """Sleep while the low half of words[i] equals `known`; may wake early."""
    system(FUTEX, address_of(words, i), FUTEX_WAIT, known & 0xFFFFFFFF, 0, 0, 0)


@kernel
def wake(words, i):
    """Wake all threads that sleep on words[i]."""
    system(FUTEX, address_of(words, i), FUTEX_WAKE, EVERYBODY, 0, 0, 0)
