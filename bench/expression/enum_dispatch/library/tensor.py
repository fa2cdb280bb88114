"""One class; its element type is a member of an enum."""

from enum import Enum

import numpy as np


class DType(Enum):
    FLOAT32 = "float32"
    INT32 = "int32"
    INT8 = "int8"


STORAGE = {
    DType.FLOAT32: np.float32,
    DType.INT32: np.int32,
    DType.INT8: np.int8,
}


class Tensor:
    def __init__(self, buffer, dtype: DType) -> None:
        self.buffer = np.asarray(buffer, STORAGE[dtype])
        self.dtype = dtype
