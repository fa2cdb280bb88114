"""Short programs of elementwise instructions on float32, a block at a time.

An instruction reads values and writes one: value 0 is a block of `x`, value 1 a block
of `y`, and value 2 + r is register r. All blocks stay in the first cache, so a chain of
instructions reads and writes memory once. No instruction writes what it reads, because
compilers do not vectorize such loops.
"""

import numpy as np

from mdtensor.kernels.cpu.generic import activation
from mdtensor.kernels.cpu.generic.activation import ONE, ZERO, activate, clamp
from mdtensor.kernels.cpu.generic.float_matmul import multiply_add
from mdtensor.kernels.cpu.jit import kernel

#: Elements of a block, unless a pixel has more.
BLOCK = 1024
#: Values of an instruction: its inputs, then registers.
INPUTS = 2

# 0 to 5 are the activations of `activation.py`. Next come operations on two values,
# then operations on one value, some of them with the number `low`.
ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM = range(6, 12)
EXP, SIGMOID, NEGATIVE, ABS, SQRT, SQUARE, RECIPROCAL = range(12, 19)
ADD_NUMBER, MUL_NUMBER, DIV_NUMBER, SUB_FROM, DIV_INTO = range(19, 24)
#: Operations that NumPy computes by other polynomials.
OWN_FUNCTIONS = (EXP, SIGMOID)
BINARY = (ADD, SUB, MUL, DIV, MAXIMUM, MINIMUM)

# The constants of exp, from Cephes: ln(2) in two parts, and a polynomial.
LOG2E = np.float32(1.44269504088896341)
LN2_HIGH, LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)
HALF = np.float32(0.5)
P0, P1, P2, P3, P4, P5 = (
    np.float32(number)
    for number in (
        *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2),
        *(1.6666665459e-1, 5.0000001201e-1),
    )
)
LEAST, MOST = np.float32(-104.0), np.float32(89.0)


@kernel(inline="always")
def power_of_two(n):
    """Return 2 ** n for an int32 from -126 to 127."""
    return np.int32((n + np.int32(127)) << np.int32(23)).view(np.float32)


# Every operation is one of IEEE 754, so all ISAs give the same bytes.
@kernel(inline="always")
def exp(x):
    """Return e ** x as float32, within 1 ulp; NaN stays NaN.

    Source: S. Moshier, Cephes Math Library, `expf.c`.
    """
    z = clamp(x, LEAST, MOST)
    n = np.float32(np.rint(np.float32(z * LOG2E)))
    r = multiply_add(n, LN2_LOW, multiply_add(n, LN2_HIGH, z))
    p = multiply_add(P0, r, P1)
    p = multiply_add(p, r, P2)
    p = multiply_add(p, r, P3)
    p = multiply_add(p, r, P4)
    p = multiply_add(p, r, P5)
    # The 1 comes last, so that little is lost before it.
    p = np.float32(multiply_add(np.float32(p * r), r, r) + ONE)
    # NaN cannot become an integer. The power of 2 is applied in two factors, because a
    # single one could not reach subnormal results.
    whole = np.int32(n) if n == n else np.int32(0)
    half = whole >> np.int32(1)
    found = np.float32(p * power_of_two(half))
    return np.float32(found * power_of_two(np.int32(whole - half)))


@kernel(inline="always")
def sigmoid(x):
    """Return 1 / (1 + e ** -x) as float32; no power overflows."""
    power = exp(-abs(x))
    share = np.float32(ONE / np.float32(ONE + power))
    return np.float32(power * share) if x < ZERO else share


@kernel
def run_unary(operation, x, low, high, out):
    """Set out = operation(x) for operations of one value."""
    n = np.uintp(len(out))
    if operation == EXP:
        for i in range(n):
            out[i] = exp(x[i])
    elif operation == SIGMOID:
        for i in range(n):
            out[i] = sigmoid(x[i])
    elif operation == NEGATIVE:
        for i in range(n):
            out[i] = -x[i]
    elif operation == ABS:
        for i in range(n):
            out[i] = abs(x[i])
    elif operation == SQRT:
        for i in range(n):
            out[i] = np.sqrt(x[i])
    elif operation == SQUARE:
        for i in range(n):
            out[i] = np.float32(x[i] * x[i])
    elif operation == RECIPROCAL:
        for i in range(n):
            out[i] = np.float32(ONE / x[i])
    elif operation == ADD_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] + low)
    elif operation == MUL_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] * low)
    elif operation == DIV_NUMBER:
        for i in range(n):
            out[i] = np.float32(x[i] / low)
    elif operation == SUB_FROM:
        for i in range(n):
            out[i] = np.float32(low - x[i])
    elif operation == DIV_INTO:
        for i in range(n):
            out[i] = np.float32(low / x[i])
    else:
        run_activation(operation, x, low, high, out)


@kernel
def run_activation(kind, x, low, high, out):
    """Set out = activate(x, kind, low, high), a loop for each kind."""
    n = np.uintp(len(out))
    if kind == activation.RELU:
        for i in range(n):
            out[i] = activate(x[i], activation.RELU, low, high)
    elif kind == activation.CLAMP:
        for i in range(n):
            out[i] = clamp(x[i], low, high)
    elif kind == activation.HARDSWISH:
        for i in range(n):
            out[i] = activate(x[i], activation.HARDSWISH, low, high)
    elif kind == activation.HARDSIGMOID:
        for i in range(n):
            out[i] = activate(x[i], activation.HARDSIGMOID, low, high)
    elif kind == activation.LEAKY_RELU:
        for i in range(n):
            out[i] = activate(x[i], activation.LEAKY_RELU, low, high)
    else:
        for i in range(n):
            out[i] = x[i]


@kernel
def run_binary(operation, x, y, out):
    """Set out = operation(x, y) for operations of two values."""
    n = np.uintp(len(out))
    if operation == ADD:
        for i in range(n):
            out[i] = np.float32(x[i] + y[i])
    elif operation == SUB:
        for i in range(n):
            out[i] = np.float32(x[i] - y[i])
    elif operation == MUL:
        for i in range(n):
            out[i] = np.float32(x[i] * y[i])
    elif operation == DIV:
        for i in range(n):
            out[i] = np.float32(x[i] / y[i])
    elif operation == MAXIMUM:
        for i in range(n):
            a, b = x[i], y[i]
            out[i] = a if a > b or a != a else b
    else:
        for i in range(n):
            a, b = x[i], y[i]
            out[i] = a if a < b or a != a else b


@kernel
def value_at(number, x, y, registers, size):
    """Return `size` elements of value `number`."""
    if number == 0:
        return x
    if number == 1:
        return y
    first = np.uintp((number - INPUTS) * size)
    return registers[first : first + np.uintp(size)]


@kernel
def elementwise_f32(x, y, repeats, program, numbers, registers, size, out):
    """Run a program of instructions over all elements.

    Args:
        x: float32 1-D, as long as `out`.
        y: float32 1-D, as long as `out`; or, if `repeats` is 1, `size` elements that
            every block reads.
        program: int64 [n, 4]: operation, target, and two values; a target is a value,
            or 0 for `out`.
        numbers: float32 [n, 2], low and high of each instruction.
        registers: float32 1-D, room for all registers.
        size: elements of a block.
        out: float32 1-D, written.
    """
    for first in range(0, len(out), size):
        last = min(len(out), first + size)
        a, z = (
            x[np.uintp(first) : np.uintp(last)],
            out[np.uintp(first) : np.uintp(last)],
        )
        b = y[: np.uintp(last - first)]
        if repeats == 0:
            b = y[np.uintp(first) : np.uintp(last)]
        for i in range(len(program)):
            operation, target = program[i, 0], program[i, 1]
            result = z
            if target != 0:
                result = value_at(target, a, b, registers, size)[: len(z)]
            given = value_at(program[i, 2], a, b, registers, size)[: len(z)]
            if ADD <= operation <= MINIMUM:
                other = value_at(program[i, 3], a, b, registers, size)[: len(z)]
                run_binary(operation, given, other, result)
            else:
                run_unary(operation, given, numbers[i, 0], numbers[i, 1], result)
