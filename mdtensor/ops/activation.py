"""Activation functions of dense tensors on the host."""

from functools import partial

import numpy as np

from mdtensor.dispatch import method
from mdtensor.errors import checked
from mdtensor.generics.activation import (
    hardsigmoid,
    hardswish,
    relu,
    relu6,
    sigmoid,
    softmax,
)
from mdtensor.generics.arithmetic import clip
from mdtensor.generics.shapes import normalize_axis
from mdtensor.kernels.dense import activation as kernel
from mdtensor.leaves import FloatingTensor, RealTensor
from mdtensor.ops.operands import deduced, on_host
from mdtensor.promotion import fit_scalar
from mdtensor.tensor import Tensor


@method(relu)
def relu(x: RealTensor, /) -> Tensor:
    on_host("relu", x)
    return x.wrap(np.maximum(x.buffer, x.dtype.storage.type(0)))


@method(relu6)
def relu6(x: RealTensor, /) -> Tensor:
    on_host("relu6", x)
    return clip(x, 0, 6)


@method(hardsigmoid)
def hardsigmoid(x: FloatingTensor, /, *, alpha: float, beta: float) -> Tensor:
    on_host("hardsigmoid", x)
    slope, offset = (
        checked("hardsigmoid", (x,), partial(fit_scalar, value, x.dtype))
        for value in (alpha, beta)
    )
    return x.wrap(kernel.hardsigmoid(x.buffer, slope, offset))


@method(hardswish)
def hardswish(x: FloatingTensor, /) -> Tensor:
    on_host("hardswish", x)
    return x.wrap(kernel.hardswish(x.buffer))


@method(sigmoid)
def sigmoid(x: FloatingTensor, /) -> Tensor:
    on_host("sigmoid", x)
    return x.wrap(kernel.sigmoid(x.buffer))


@method(softmax)
def softmax(x: FloatingTensor, /, *, axis: int) -> Tensor:
    deduced(softmax, x, axis=axis)
    return x.wrap(kernel.softmax(x.buffer, normalize_axis(axis, x.ndim)))
