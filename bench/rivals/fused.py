"""As many fused multiply-adds as a product has, on registers alone."""

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa, vectors
from mdtensor.kernels.cpu.jit import kernel

#: Numbers of the widest vector that the CPU multiplies.
LANES = 16 if "avx512f" in isa.FEATURES else 8 if "avx2" in isa.FEATURES else 4
CHAINS = 12  # more than latency times throughput


@intrinsic
def _chains(typing, steps):
    def emit(context, b, signature, arguments):
        kind = ir.VectorType(ir.FloatType(), LANES)
        number = b.sitofp(arguments[0], ir.FloatType())
        factor = vectors.splat(b, number, LANES)
        starts = [ir.Constant(kind, [float(i)] * LANES) for i in range(CHAINS)]

        def step(i, chains):
            name = f"llvm.fma.v{LANES}f32"
            return [vectors.call(b, name, kind, c, factor, factor) for c in chains]

        first, *rest = vectors.repeat(b, arguments[0], starts, step)
        for chain in rest:
            first = b.fadd(first, chain)
        return b.extract_element(first, vectors.I32(0))

    return types.float32(types.int64), emit


@kernel
def _run(steps: int) -> float:
    return _chains(steps)


def products(count: int) -> Callable[[], None]:
    """A call of `count` fused multiply-adds, that gives nothing."""
    steps = np.int64(count // (LANES * CHAINS))

    def run() -> None:
        _run(steps)

    return run
