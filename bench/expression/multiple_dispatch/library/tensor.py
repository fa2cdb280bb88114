"""A class for each element type."""

import numpy as np


class Tensor:
    def __init__(self, buffer) -> None:
        self.buffer = np.asarray(buffer, self.storage)


class Float32(Tensor):
    storage = np.float32


class Int32(Tensor):
    storage = np.int32


class Int8(Tensor):
    storage = np.int8
