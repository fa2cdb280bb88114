"""Element types of quantized tensors: codes that mean nothing without their grid."""

from typing import Final

from mdtensor import DType

qint8: Final = DType("qint8", "quantized", 8, "int8")
quint8: Final = DType("quint8", "quantized", 8, "uint8")
qint32: Final = DType("qint32", "quantized", 32, "int32")

#: Those whose zero point is always 0.
SYMMETRIC: Final = frozenset({qint32})
