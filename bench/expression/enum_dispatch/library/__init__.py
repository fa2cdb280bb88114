"""Tensors of one class; functions look at the element types they hold."""

from library.kernels import (
    add_float32,
    add_int8,
    add_int32,
    mul_float32,
    mul_int8,
    mul_int32,
    total_float32,
    total_int8,
    total_int32,
)
from library.tensor import DType, Tensor


def add(x: Tensor, y: Tensor) -> Tensor:
    match (x.dtype, y.dtype):
        case (DType.FLOAT32, DType.FLOAT32):
            return Tensor(add_float32(x.buffer, y.buffer), DType.FLOAT32)
        case (DType.INT32, DType.INT32):
            return Tensor(add_int32(x.buffer, y.buffer), DType.INT32)
        case (DType.INT8, DType.INT8):
            return Tensor(add_int8(x.buffer, y.buffer), DType.INT8)
        case (DType.FLOAT32, DType.INT32 | DType.INT8):
            return Tensor(add_float32(x.buffer, y.buffer), DType.FLOAT32)
        case (DType.INT32 | DType.INT8, DType.FLOAT32):
            return Tensor(add_float32(x.buffer, y.buffer), DType.FLOAT32)
    raise TypeError(f"add: no kernel for {x.dtype}, {y.dtype}")


def mul(x: Tensor, y: Tensor) -> Tensor:
    match (x.dtype, y.dtype):
        case (DType.FLOAT32, DType.FLOAT32):
            return Tensor(mul_float32(x.buffer, y.buffer), DType.FLOAT32)
        case (DType.INT32, DType.INT32):
            return Tensor(mul_int32(x.buffer, y.buffer), DType.INT32)
        case (DType.INT8, DType.INT8):
            return Tensor(mul_int8(x.buffer, y.buffer), DType.INT8)
        case (DType.FLOAT32, DType.INT32 | DType.INT8):
            return Tensor(mul_float32(x.buffer, y.buffer), DType.FLOAT32)
        case (DType.INT32 | DType.INT8, DType.FLOAT32):
            return Tensor(mul_float32(x.buffer, y.buffer), DType.FLOAT32)
    raise TypeError(f"mul: no kernel for {x.dtype}, {y.dtype}")


def total(x: Tensor) -> float:
    match x.dtype:
        case DType.FLOAT32:
            return total_float32(x.buffer)
        case DType.INT32:
            return total_int32(x.buffer)
        case DType.INT8:
            return total_int8(x.buffer)
    raise TypeError(f"total: no kernel for {x.dtype}")


def values(x: Tensor) -> list[float]:
    match x.dtype:
        case DType.FLOAT32 | DType.INT32 | DType.INT8:
            return x.buffer.tolist()
    raise TypeError(f"values: no kernel for {x.dtype}")
