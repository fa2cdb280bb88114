"""Methods of the activation functions for dense tensors on the host."""

from functools import partial

from mdtensor.dispatch.operation import method
from mdtensor.errors import checked
from mdtensor.generics.activation import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
)
from mdtensor.kernels.numpy import activation as kernel
from mdtensor.ops import steps
from mdtensor.ops.operands import deduced, on_host
from mdtensor.ops.reduction_steps import log_softmax_step
from mdtensor.promotion import fit_scalar
from mdtensor.spec.options import number
from mdtensor.spec.shapes import normalize_axis
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, RealTensor


@method(relu, prepare=steps.unary_step("RELU"))
def relu(x: RealTensor, /) -> Tensor:
    on_host("relu", x)
    return x.wrap(kernel.relu(x.buffer))


@method(relu6, prepare=steps.unary_step("CLAMP", low=0, high=6))
def relu6(x: RealTensor, /) -> Tensor:
    on_host("relu6", x)
    return x.wrap(kernel.hardtanh(x.buffer, 0, 6))


@method(hardtanh, prepare=steps.hardtanh_step)
def hardtanh(x: FloatingTensor, /, *, min_val: float, max_val: float) -> Tensor:
    deduced(hardtanh, x, min_val=min_val, max_val=max_val)
    low, high = number(min_val, "min_val"), number(max_val, "max_val")
    return x.wrap(kernel.hardtanh(x.buffer, low, high))


@method(hardsigmoid, prepare=steps.hardsigmoid_step)
def hardsigmoid(x: FloatingTensor, /, *, alpha: float, beta: float) -> Tensor:
    on_host("hardsigmoid", x)
    # Both are rounded to the type of x first, so the kernel computes in that type.
    slope, offset = (
        checked("hardsigmoid", (x,), partial(fit_scalar, value, x.dtype))
        for value in (alpha, beta)
    )
    return x.wrap(kernel.hardsigmoid(x.buffer, slope, offset))


@method(hardswish, prepare=steps.unary_step("HARDSWISH"))
def hardswish(x: FloatingTensor, /) -> Tensor:
    on_host("hardswish", x)
    return x.wrap(kernel.hardswish(x.buffer))


@method(leaky_relu, prepare=steps.leaky_relu_step)
def leaky_relu(x: FloatingTensor, /, *, negative_slope: float) -> Tensor:
    deduced(leaky_relu, x, negative_slope=negative_slope)
    return x.wrap(kernel.leaky_relu(x.buffer, number(negative_slope, "negative_slope")))


@method(prelu, prepare=steps.prelu_step)
def prelu(x: FloatingTensor, weight: FloatingTensor, /) -> Tensor:
    deduced(prelu, x, weight)
    return x.wrap(kernel.prelu(x.buffer, weight.buffer))


@method(elu)
def elu(x: FloatingTensor, /, *, alpha: float) -> Tensor:
    deduced(elu, x, alpha=alpha)
    return x.wrap(kernel.elu(x.buffer, number(alpha, "alpha")))


@method(selu)
def selu(x: FloatingTensor, /) -> Tensor:
    on_host("selu", x)
    return x.wrap(kernel.selu(x.buffer))


@method(celu)
def celu(x: FloatingTensor, /, *, alpha: float) -> Tensor:
    deduced(celu, x, alpha=alpha)
    return x.wrap(kernel.celu(x.buffer, number(alpha, "alpha")))


@method(sigmoid, prepare=steps.unary_step("SIGMOID"))
def sigmoid(x: FloatingTensor, /) -> Tensor:
    on_host("sigmoid", x)
    return x.wrap(kernel.sigmoid(x.buffer))


@method(logsigmoid)
def logsigmoid(x: FloatingTensor, /) -> Tensor:
    on_host("logsigmoid", x)
    return x.wrap(kernel.logsigmoid(x.buffer))


@method(softplus, prepare=steps.softplus_step)
def softplus(x: FloatingTensor, /, *, beta: float, threshold: float) -> Tensor:
    deduced(softplus, x, beta=beta, threshold=threshold)
    return x.wrap(
        kernel.softplus(x.buffer, number(beta, "beta"), number(threshold, "threshold"))
    )


@method(softsign)
def softsign(x: FloatingTensor, /) -> Tensor:
    on_host("softsign", x)
    return x.wrap(kernel.softsign(x.buffer))


@method(silu, prepare=steps.unary_step("SILU"))
def silu(x: FloatingTensor, /) -> Tensor:
    on_host("silu", x)
    return x.wrap(kernel.silu(x.buffer))


@method(mish)
def mish(x: FloatingTensor, /) -> Tensor:
    on_host("mish", x)
    return x.wrap(kernel.mish(x.buffer))


@method(gelu, prepare=steps.gelu_step)
def gelu(x: FloatingTensor, /, *, approximate: str) -> Tensor:
    deduced(gelu, x, approximate=approximate)
    curve = kernel.gelu_tanh if approximate == "tanh" else kernel.gelu
    return x.wrap(curve(x.buffer))


@method(glu)
def glu(x: FloatingTensor, /, *, axis: int) -> Tensor:
    deduced(glu, x, axis=axis)
    return x.wrap(kernel.glu(x.buffer, normalize_axis(axis, x.ndim)))


@method(softmax, prepare=steps.softmax_step)
def softmax(x: FloatingTensor, /, *, axis: int) -> Tensor:
    deduced(softmax, x, axis=axis)
    return x.wrap(kernel.softmax(x.buffer, normalize_axis(axis, x.ndim)))


@method(log_softmax, prepare=log_softmax_step)
def log_softmax(x: FloatingTensor, /, *, axis: int) -> Tensor:
    deduced(log_softmax, x, axis=axis)
    return x.wrap(kernel.log_softmax(x.buffer, normalize_axis(axis, x.ndim)))
