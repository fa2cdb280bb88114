"""float8_e4m3fn for mdtensor: 4 significant bits, up to 448, NaN and no infinity.

Source: OCP 8-bit Floating Point Specification 1.0, E4M3.
"""

import ml_dtypes

import mdtensor as md

float8 = md.DType("float8_e4m3fn", "real floating", 8, ml_dtypes.float8_e4m3fn)


class Float8Tensor(md.FloatingTensor, dtype=float8):
    """8-bit floats, computed in float32 and rounded once; larger numbers become NaN."""

    __slots__ = ()


class CudaFloat8Tensor(md.FloatingTensor, dtype=float8, device=md.cuda):
    """A `Float8Tensor` in the memory of a GPU."""

    __slots__ = ()


# With an integer the result is float8, as for all floats; with another float it is the
# other float.
md.add_type(float8, above=[md.int64, md.uint64], below=[md.float16, md.bfloat16])
