"""Tensors of a class for each element type; methods are chosen by all arguments."""

from typing import Union

from library import kernels
from library.tensor import Float32, Int8, Int32, Tensor
from mdtensor import generic, method


@generic
def add(x, y, /):
    """x + y."""


@generic
def mul(x, y, /):
    """x · y."""


@generic
def total(x, /):
    """Sum of the elements."""


@generic
def values(x, /):
    """The elements as numbers."""


Integer = Union[Int32, Int8]


@method(add)
def add(x: Float32, y: Union[Float32, Integer], /):
    return Float32(kernels.add_float32(x.buffer, y.buffer))


@method(add)
def add(x: Integer, y: Float32, /):
    return Float32(kernels.add_float32(x.buffer, y.buffer))


@method(add)
def add(x: Int32, y: Int32, /):
    return Int32(kernels.add_int32(x.buffer, y.buffer))


@method(add)
def add(x: Int8, y: Int8, /):
    return Int8(kernels.add_int8(x.buffer, y.buffer))


@method(mul)
def mul(x: Float32, y: Union[Float32, Integer], /):
    return Float32(kernels.mul_float32(x.buffer, y.buffer))


@method(mul)
def mul(x: Integer, y: Float32, /):
    return Float32(kernels.mul_float32(x.buffer, y.buffer))


@method(mul)
def mul(x: Int32, y: Int32, /):
    return Int32(kernels.mul_int32(x.buffer, y.buffer))


@method(mul)
def mul(x: Int8, y: Int8, /):
    return Int8(kernels.mul_int8(x.buffer, y.buffer))


@method(total)
def total(x: Float32, /):
    return kernels.total_float32(x.buffer)


@method(total)
def total(x: Int32, /):
    return kernels.total_int32(x.buffer)


@method(total)
def total(x: Int8, /):
    return kernels.total_int8(x.buffer)


@method(values)
def values(x: Tensor, /):
    return x.buffer.tolist()
