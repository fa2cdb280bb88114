"""Error-free sums and products of float64: the rounded result, and its error.

Both are exact if nothing overflows and no error is subnormal. LLVM contracts products
and sums only with a fast-math flag, so the bytes are the same on every CPU.

Source: T. J. Dekker, "A floating-point technique for extending the available
precision", 1971; J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 4.3-4.4.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

compiled = register_jitable(error_model="numpy", forceinline=True)
# Its product with a float64 splits the 53 bits into halves of 26.
SPLITTER = 2.0**27 + 1


@compiled
def two_sum(a, b):
    """Return (s, e) with s = a + b rounded and s + e = a + b."""
    s = a + b
    most = s - b
    return s, (a - most) + (b - (s - most))


@compiled
def fast_two_sum(a, b):
    """Return `two_sum` of a and b, in half the operations; |a| ≥ |b|, or a is 0."""
    s = a + b
    return s, b - (s - a)


def two_prod(a, b):
    """Return (p, e) with p = a · b rounded and p + e = a · b."""
    # `math.fma` came with Python 3.13; without it, the halves are multiplied.
    p = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@overload(two_prod, jit_options={"error_model": "numpy"})
def _two_prod(a, b):
    def multiply(a, b):
        p = a * b
        return p, fma(a, b, -p)

    return multiply


def _upper(a):
    """Return the float64 a, rounded to 26 significant bits."""
    scaled = SPLITTER * a
    return scaled - (scaled - a)


@intrinsic
def fma(typing, a, b, c):
    """Return a · b + c, rounded once."""

    def code(context, builder, signature, arguments):
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * 3)
        found = builder.module.declare_intrinsic("llvm.fma", [double], kind)
        return builder.call(found, arguments)

    return types.float64(types.float64, types.float64, types.float64), code
