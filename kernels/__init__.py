"""Kernels: arrays in, arrays out; numpy and numba only, never mdtensor.

Arithmetic: activation codes are uint8, weights int8, accumulators int32 and exact.
Every rounding is out = clamp(round_half_even(exact value) + zero_point, lo, hi): the
exact value is a rational (`rescale.py`), computed in float32 and decided by integers
next to a tie (`cpu/rounding.py`). So all runways and thread counts give the same bytes.

Arrays: 1-D and C-contiguous, images NHWC; a kernel allocates nothing that it returns.
`out` aliases an input only where the docstring says so. Integers are int64 unless said
otherwise. A docstring has formula, dtypes, layouts, aliasing, rounding, overflow.

Names: as in BLAS and oneDNN, suffix by dtypes, accumulator or result last:
`gemm_u8s8s32` gives sums, `gemm_u8s8u8` codes.

Files: `reference/` is the oracle, the same names, slow. `cpu/<family>.py` runs on every
CPU, `cpu/avx2/` needs AVX2 and FMA, `cpu/dot/` AVX-512, AVX-VNNI or Arm's dot product;
`cpu/runway.py` picks.
`cpu/steps.py` wraps kernels with their constants; `cpu/program.py` runs steps in one
compiled call.
"""

if __name__ != "mdtensor.kernels":
    raise ImportError("import mdtensor.kernels, not kernels: two copies break dispatch")
__path__ = __import__("pkgutil").extend_path(__path__, __name__)
