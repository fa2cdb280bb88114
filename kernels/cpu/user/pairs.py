"""Sums and products of float64 without error: the rounded result and what it lacks.

Exact where nothing overflows and no error is subnormal. LLVM contracts nothing unless
asked, so the bytes are the same on every CPU.

Source: T. J. Dekker, "A floating-point technique for extending the available
precision", 1971; J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 4.3-4.4.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable

compiled = register_jitable(error_model="numpy", forceinline=True)
SPLITTER = 2.0**27 + 1


@compiled
def two_sum(a, b):
    """(s, e): s = a + b rounded, s + e = a + b."""
    s = a + b
    most = s - b
    return s, (a - most) + (b - (s - most))


@compiled
def ordered_sum(a, b):
    """`two_sum` where |a| ≥ |b| or a is 0."""
    s = a + b
    return s, b - (s - a)


def two_prod(a, b):
    """(p, e): p = a · b rounded, p + e = a · b."""
    p = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@overload(two_prod, jit_options={"error_model": "numpy"})
def _two_prod(a, b):
    def fused(a, b):
        p = a * b
        return p, fma(a, b, -p)

    return fused


def _upper(a):
    """The upper 26 bits of a, rounded."""
    scaled = SPLITTER * a
    return scaled - (scaled - a)


@intrinsic
def fma(typing, a, b, c):
    """a · b + c, rounded once."""

    def code(context, builder, signature, arguments):
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double] * 3)
        found = builder.module.declare_intrinsic("llvm.fma", [double], kind)
        return builder.call(found, arguments)

    return types.float64(types.float64, types.float64, types.float64), code
