"""Element types of quantized tensors. Their elements are codes, not numbers."""

from functools import cache
from typing import Final

import ml_dtypes

from mdtensor import DType, dtype as find_dtype, uint8

qint4: Final = DType("qint4", "quantized", 4, "int8")
quint4: Final = DType("quint4", "quantized", 4, "uint8")
qint8: Final = DType("qint8", "quantized", 8, "int8")
quint8: Final = DType("quint8", "quantized", 8, "uint8")
qint16: Final = DType("qint16", "quantized", 16, "int16")
qint32: Final = DType("qint32", "quantized", 32, "int32")
qfloat8_e4m3: Final = DType("qfloat8_e4m3", "quantized", 8, ml_dtypes.float8_e4m3fn)
qfloat8_e5m2: Final = DType("qfloat8_e5m2", "quantized", 8, ml_dtypes.float8_e5m2)

#: All element types of codes.
CODES: Final = (
    qint4,
    quint4,
    qint8,
    quint8,
    qint16,
    qint32,
    qfloat8_e4m3,
    qfloat8_e5m2,
)
#: Types whose codes are floats.
FLOATS: Final = frozenset({qfloat8_e4m3, qfloat8_e5m2})
#: Types whose zero point is always 0.
SYMMETRIC: Final = frozenset({qint16, qint32}) | FLOATS


@cache
def storage_dtype(dtype: DType) -> DType:
    """Return the plain element type of the codes of `dtype`.

    The codes of 8-bit floats are their bytes: the core does not have a float8 type.

    Example:
        >>> print(storage_dtype(qint4), storage_dtype(qfloat8_e5m2))
        int8 uint8
    """
    stored = dtype.storage
    return find_dtype(stored.name if stored.kind in "iu" else uint8)


def codes_like(dtype: DType) -> str:
    """Return the name of the type whose codes are stored as `dtype`, or "".

    Example:
        >>> from mdtensor import float32, int16
        >>> codes_like(int16), codes_like(float32)
        ('qint16', '')
    """
    return next((str(ours) for ours in CODES if str(ours) == f"q{dtype}"), "")
