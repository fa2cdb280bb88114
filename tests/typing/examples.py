"""What a reader sees under the cursor: each line says the type of its expression.

mypy, pyright and Python itself must agree with the comments; see test_checkers.py.
"""

from typing import Any, reveal_type

import numpy as np

import mdtensor as md
from mdtensor import quant

i8 = md.asarray([1, 2], dtype=md.int8)
u8 = md.asarray([1, 2], dtype=md.uint8)
i32 = md.asarray([0, 1], dtype=md.int32)
u32 = md.asarray([1, 2], dtype=md.uint32)
f16 = md.zeros(2, dtype=md.float16)
bf16 = md.zeros(2, dtype=md.bfloat16)
f32 = md.asarray([1.0, 2.0])
f64 = md.asarray([1.0, 2.0], dtype=md.float64)
c64 = md.asarray([1j, 2.0])
truths = md.asarray([True, False])
matrix = md.asarray([[4.0, 1.0], [1.0, 3.0]])
images = md.zeros((1, 2, 4, 4))
q8 = quant.QInt8Tensor([1, 2], scale=0.5)
q32 = quant.QInt32Tensor([1, 2], scale=0.25)

# Creation: Python's numbers, NumPy's arrays, an element type.
reveal_type(md.asarray([[1, 2], [3, 4]]))  # Int64Tensor
reveal_type(md.asarray(np.ones((2, 3), np.float32)))  # Float32Tensor
reveal_type(md.asarray(b"ab"))  # UInt8Tensor
reveal_type(md.asarray(bytearray(b"ab")))  # UInt8Tensor
reveal_type(md.asarray(f16))  # Float16Tensor
reveal_type(md.zeros((2, 3)))  # Float32Tensor
reveal_type(md.full(3, True))  # BoolTensor
reveal_type(md.full(3, 2))  # Int64Tensor
reveal_type(md.full(3, 1j))  # Complex64Tensor
reveal_type(md.arange(3))  # Int64Tensor
reveal_type(md.arange(0.0, 1.0, 0.5))  # Float32Tensor
reveal_type(md.linspace(0, 1, 3))  # Float32Tensor
reveal_type(md.eye(2, dtype=md.bool))  # BoolTensor
reveal_type(md.zeros_like(i8))  # Int8Tensor
reveal_type(md.full_like(i8, 2, dtype=md.float16))  # Float16Tensor

# Promotion: a float keeps its width, signs meet one size up, Python's numbers are weak.
reveal_type(i8 + i8)  # Int8Tensor
reveal_type(i8 + u8)  # Int16Tensor
reveal_type(i8 * u32)  # Int64Tensor
reveal_type(i32 * f16)  # Float16Tensor
reveal_type(f16 + bf16)  # Float32Tensor
reveal_type(bf16 - f32)  # Float32Tensor
reveal_type(f64 * c64)  # Complex128Tensor
reveal_type(truths * f16)  # Float16Tensor
reveal_type(i8 + 1)  # Int8Tensor
reveal_type(1.5 * i8)  # Float32Tensor
reveal_type(1.5 * bf16)  # BFloat16Tensor
reveal_type(f32 + 1j)  # Complex64Tensor
reveal_type(md.maximum(i8, u8))  # Int16Tensor
reveal_type(md.where(truths, i8, f16))  # Float16Tensor
reveal_type(md.atan2(f32, f64))  # Float64Tensor

# Operations are methods as well.
reveal_type(f32.sum(axis=0))  # Float32Tensor
reveal_type(i8.sum())  # Int64Tensor
reveal_type(i8.add(u8))  # Int16Tensor
reveal_type(f16.astype(md.int8))  # Int8Tensor
reveal_type(matrix.reshape((4,)))  # Float32Tensor
reveal_type(matrix.matmul(matrix))  # Float32Tensor
reveal_type(truths.where(i8, f16))  # Float16Tensor
reveal_type(f64.softmax(axis=0).max())  # Float64Tensor
reveal_type(f32.less(1))  # BoolTensor
reveal_type(q8.relu())  # QInt8Tensor

# Operators and indexing.
reveal_type(-f16)  # Float16Tensor
reveal_type(abs(c64))  # Float32Tensor
reveal_type(f32 / 2)  # Float32Tensor
reveal_type(i8 // 2)  # Int8Tensor
reveal_type(i8 % u8)  # Int16Tensor
reveal_type(f32**2)  # Float32Tensor
reveal_type(2.0**f32)  # Float32Tensor
reveal_type(i8 & u8)  # Int16Tensor
reveal_type(~truths)  # BoolTensor
reveal_type(i8 << 1)  # Int8Tensor
reveal_type(matrix @ matrix)  # Float32Tensor
reveal_type(i8 < f32)  # BoolTensor
reveal_type(i8 == 1)  # BoolTensor
reveal_type(f32[f32 > 1])  # Float32Tensor
reveal_type(matrix.T)  # Float32Tensor
f32 += i8
reveal_type(f32)  # Float32Tensor

# Conversion.
reveal_type(md.astype(f32, md.int16))  # Int16Tensor
reveal_type(md.astype(f32, md.uint8, casting="saturate"))  # UInt8Tensor

# One family after the other.
reveal_type(md.relu(i8))  # Int8Tensor
reveal_type(md.gelu(bf16))  # BFloat16Tensor
reveal_type(md.sin(c64))  # Complex64Tensor
reveal_type(md.sqrt(f64))  # Float64Tensor
reveal_type(md.isnan(f16))  # BoolTensor
reveal_type(md.clip(i8, 0, 1))  # Int8Tensor
reveal_type(md.logical_and(truths, True))  # BoolTensor
reveal_type(md.sum(i8))  # Int64Tensor
reveal_type(md.sum(u8))  # UInt64Tensor
reveal_type(md.sum(f16))  # Float16Tensor
reveal_type(md.sum(i8, dtype=md.int32))  # Int32Tensor
reveal_type(md.mean(bf16))  # BFloat16Tensor
reveal_type(md.any(f32))  # BoolTensor
reveal_type(md.argmax(f32))  # Int64Tensor
reveal_type(md.cumulative_sum(i8, axis=0))  # Int64Tensor
reveal_type(md.sort(i8))  # Int8Tensor
reveal_type(md.argsort(i8))  # Int64Tensor
reveal_type(md.take(f16, md.arange(2)))  # Float16Tensor
reveal_type(md.reshape(truths, (2, 1)))  # BoolTensor
reveal_type(md.concat([f16, f16]))  # Float16Tensor
reveal_type(md.stack([i8, i8]))  # Int8Tensor
reveal_type(md.unstack(matrix))  # tuple[Float32Tensor, ...]
reveal_type(md.nonzero(i8))  # tuple[Int64Tensor, ...]
reveal_type(md.unique_counts(i8))  # UniqueCountsResult[Int8Tensor, Int64Tensor]
reveal_type(md.matmul(matrix, md.astype(matrix, md.float64)))  # Float64Tensor
reveal_type(md.linear(f32, matrix, f32))  # Float32Tensor
reveal_type(md.conv2d(images, images))  # Float32Tensor
reveal_type(md.max_pool2d(images, 2))  # Float32Tensor
reveal_type(md.layer_norm(f16, normalized_shape=2))  # Float16Tensor
reveal_type(md.softmax(f64))  # Float64Tensor
reveal_type(md.embedding(i32, matrix))  # Float32Tensor
reveal_type(md.linalg.svd(matrix).S)  # Float32Tensor
reveal_type(md.linalg.eigh(matrix))  # EighResult[Float32Tensor, Float32Tensor]
reveal_type(md.linalg.eig(matrix))  # EigResult[Complex64Tensor, Complex64Tensor]
reveal_type(md.fft.rfft(f64))  # Complex128Tensor
reveal_type(md.fft.irfft(c64))  # Float32Tensor

# Quantized tensors: exact without a grid, of the type of the grid with one.
reveal_type(quant.quantize(f32, quant.QParams(0.5)))  # QInt8Tensor
reveal_type(quant.quantize(f32, quant.QParams(0.5, dtype=quant.quint8)))  # QUInt8Tensor
reveal_type(quant.dequantize(q8))  # Float32Tensor
reveal_type(q8 * q8)  # QInt32Tensor
reveal_type(md.mul(q8, q8, out=quant.QParams(0.5)))  # QInt8Tensor
reveal_type(md.concat([q8, q8]))  # QInt8Tensor
reveal_type(md.concat([q8, q32], out=quant.QParams(0.5)))  # QInt8Tensor
reveal_type(q32 + q32)  # QInt32Tensor
reveal_type(md.matmul(q8, q8))  # QInt32Tensor
reveal_type(q8 < q8)  # BoolTensor
reveal_type(q8[0])  # QInt8Tensor


def of_kinds(x: md.NumericTensor, y: md.FloatingTensor, k: md.IntegerTensor) -> None:
    """Where only the kind is known, so is that of the result."""
    reveal_type(x + x)  # NumericTensor
    reveal_type(y + k)  # FloatingTensor
    reveal_type(1 + k)  # IntegerTensor
    reveal_type(y < k)  # LogicalTensor
    reveal_type(md.sin(y))  # FloatingTensor
    reveal_type(md.add(k, 1.5))  # FloatingTensor


def of_anything(x: Any) -> None:
    """What is not known stays so."""
    reveal_type(md.sin(x))  # Any


of_kinds(f32, f16, i8)
of_anything(f32)
reveal_type(f32.sum(0))  # Float32Tensor
reveal_type(f32.reshape(1, 2))  # Float32Tensor
reveal_type(f32.reshape((1, 2)))  # Float32Tensor
reveal_type(f32.squeeze())  # Float32Tensor
