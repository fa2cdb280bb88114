"""Functions of float32 on each element of an array.

An eager call, an instruction of a program and a step of a plan run the same function of
`float_functions.py`, so they give the same bytes (decision 0067).

    x, out    float32 1-D of one length; `out` is written and may not be x

A loop for each function: no branch stands inside of one, so that all become vectors.
"""

import numpy as np

from mdtensor.kernels.cpu.generic.float_functions import (
    erf,
    exp,
    gelu,
    gelu_tanh,
    log,
    sigmoid,
    silu,
    softplus,
    tanh,
)
from mdtensor.kernels.cpu.jit import kernel


@kernel(inline="always")
def exp_f32(x, out):
    """Set out = e ** x."""
    for i in range(np.uintp(len(out))):
        out[i] = exp(x[i])


@kernel(inline="always")
def log_f32(x, out):
    """Set out to the natural logarithm of x."""
    for i in range(np.uintp(len(out))):
        out[i] = log(x[i])


@kernel(inline="always")
def tanh_f32(x, out):
    """Set out to the hyperbolic tangent of x."""
    for i in range(np.uintp(len(out))):
        out[i] = tanh(x[i])


@kernel(inline="always")
def erf_f32(x, out):
    """Set out to the error function of x."""
    for i in range(np.uintp(len(out))):
        out[i] = erf(x[i])


@kernel(inline="always")
def sigmoid_f32(x, out):
    """Set out = 1 / (1 + e ** -x)."""
    for i in range(np.uintp(len(out))):
        out[i] = sigmoid(x[i])


@kernel(inline="always")
def silu_f32(x, out):
    """Set out = x · sigmoid(x)."""
    for i in range(np.uintp(len(out))):
        out[i] = silu(x[i])


@kernel(inline="always")
def gelu_f32(x, out):
    """Set out = x · Φ(x), with Φ of the normal distribution."""
    for i in range(np.uintp(len(out))):
        out[i] = gelu(x[i])


@kernel(inline="always")
def gelu_tanh_f32(x, out):
    """Set out to the approximation of gelu by tanh."""
    for i in range(np.uintp(len(out))):
        out[i] = gelu_tanh(x[i])


@kernel(inline="always")
def softplus_f32(x, beta, threshold, out):
    """Set out = log(1 + e ** (beta · x)) / beta, or x where beta · x > threshold."""
    for i in range(np.uintp(len(out))):
        out[i] = softplus(x[i], beta, threshold)
