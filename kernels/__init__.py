"""Kernels: arrays in, arrays out; numpy and numba only, never mdtensor.

Arithmetic: activation codes are uint8, weights int8, accumulators int32 and exact.
Every rounding is out = clamp(round_half_even(exact value) + zero_point, lo, hi): the
exact value is a rational (`rescale.py`), computed in float32 and decided by integers
next to a tie (`cpu/rounding.py`, decision 0003). So every ISA and every number of
threads gives the same bytes.

Arrays: 1-D and C-contiguous, images NHWC; a kernel does not allocate what it returns.
`out` aliases an input only where the docstring allows it. Integers are int64 unless the
docstring names another type. A docstring gives formula, dtypes, layouts, aliasing,
rounding and overflow.

Names: as in BLAS and oneDNN, with a suffix of dtypes, accumulator or result last:
`gemm_u8s8s32` gives sums, `gemm_u8s8u8` codes.

Files: `reference/` is the oracle, slow, with the same names. `cpu/generic/` runs on
every CPU, `cpu/avx2/` needs AVX2 and FMA, `cpu/dot8/` needs AVX-512, AVX-VNNI or Arm's
dot product; `cpu/isa.py` chooses. `cpu/program/` wraps kernels with their constants as
steps, and runs steps in one compiled call. `numpy/` has the kernels of dense tensors,
`presets/` the rounding rules of other libraries.
"""

if __name__ != "mdtensor.kernels":
    raise ImportError("import mdtensor.kernels, not kernels: two copies break dispatch")
__path__ = __import__("pkgutil").extend_path(__path__, __name__)
