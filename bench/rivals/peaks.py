"""As many multiply-adds as a product has, on registers alone: no product is faster."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from mdtensor.kernels.cpu import isa, vectors
from mdtensor.kernels.cpu.jit import kernel

#: Bytes of the widest vector that the CPU multiplies.
WIDTH = 64 if "avx512f" in isa.FEATURES else 32 if "avx2" in isa.FEATURES else 16
CHAINS = 12  # more than latency times throughput
#: What sums four products of bytes in each lane of 32 bits, or two of 16 bits.
DOT = {64: "llvm.x86.avx512.vpdpbusd.512", 32: "llvm.x86.avx512.vpdpbusd.256"}
HAS_DOT = {64: "avx512vnni", 32: "avxvnni"}.get(WIDTH) in isa.FEATURES
PAIRS = {
    64: "llvm.x86.avx512.pmaddw.d.512",
    32: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.sse2.pmadd.wd",
}
FLOATS = WIDTH // 4
CODES = WIDTH if HAS_DOT else WIDTH // 2


def _chained(b: Any, steps: Any, kind: Any, step: Any, add: Any) -> Any:
    """Lane 0 of the sum of CHAINS vectors, each of which takes `steps` steps."""
    starts = [ir.Constant(kind, [i] * kind.count) for i in range(CHAINS)]
    first, *rest = vectors.repeat(
        b, steps, starts, lambda i, chains: [step(chain) for chain in chains]
    )
    for chain in rest:
        first = add(first, chain)
    return b.extract_element(first, vectors.I32(0))


@intrinsic
def _multiply_floats(typing, steps):
    def emit(context, b, signature, arguments):
        kind = ir.VectorType(vectors.F32, FLOATS)
        factor = vectors.splat(b, b.sitofp(arguments[0], vectors.F32), FLOATS)
        name = f"llvm.fma.v{FLOATS}f32"

        def step(chain):
            return vectors.call(b, name, kind, chain, factor, factor)

        return _chained(b, arguments[0], kind, step, b.fadd)

    return types.float32(types.int64), emit


@intrinsic
def _multiply_codes(typing, steps):
    def emit(context, b, signature, arguments):
        kind = ir.VectorType(vectors.I32, WIDTH // 4)
        words = ir.VectorType(vectors.I16, WIDTH // 2)
        number = b.trunc(arguments[0], vectors.I32)
        factor = vectors.splat(b, number, kind.count)

        def step(chain):
            if HAS_DOT:
                return vectors.call(b, DOT[WIDTH], kind, chain, chain, factor)
            pair = [b.bitcast(x, words) for x in (chain, factor)]
            return b.add(chain, vectors.call(b, PAIRS[WIDTH], kind, *pair))

        return _chained(b, arguments[0], kind, step, b.add)

    return types.int32(types.int64), emit


@kernel
def run_floats(steps):
    """The sum of lane 0 of all chains: each is c, then c · steps + steps, and so on."""
    return _multiply_floats(steps)


@kernel
def run_codes(steps):
    """The sum of lane 0 of all chains: each is c, then c + c · steps, and so on."""
    return _multiply_codes(steps)


def of_floats(count: int) -> Callable[[], None]:
    """A call of `count` fused multiply-adds of float32, that gives nothing."""
    return _called(run_floats, count // (FLOATS * CHAINS))


def of_codes(count: int) -> Callable[[], None] | None:
    """A call of `count` multiply-adds of codes into 32 bits, that gives nothing.

    Returns:
        None on a CPU whose instruction for them is not known here.
    """
    if "sse2" not in isa.FEATURES:
        return None
    return _called(run_codes, count // (CODES * CHAINS))


def _called(run: Callable[[Any], Any], count: int) -> Callable[[], None]:
    steps = np.int64(count)

    def call() -> None:
        run(steps)

    return call
