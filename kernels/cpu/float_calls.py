"""Functions and norms of float32 arrays of NumPy, by the kernels that plans run.

A kernel has one signature, for contiguous arrays that may be written: another signature
would be compiled anew. Other arrays are copied first.
"""

from functools import partial
from math import prod

import numpy as np

from mdtensor.kernels import observe
from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.numpy import empty
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.threads import POOL

F32 = np.dtype(np.float32)
#: Bytes of a result from which it takes the memory of an earlier one. Elsewhere fresh
#: pages are a small part of the time (decision 0062).
LARGE = 1 << 20
NAMES = ("exp", "log", "tanh", "erf", "sigmoid", "silu", "gelu", "gelu_tanh")
MAPS = {name: Entry("generic.float_maps", f"{name}_f32") for name in NAMES}
MAPS |= {x: Entry("generic.float_circle", f"{x}_f32") for x in ("sin", "cos")}
#: Functions that are computed in float64 (decision 0106).
WIDE = (
    *("expm1", "log1p", "log2", "log10", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh"),
)
#: Functions without an instruction of programs as well.
FUNCTIONS = MAPS | {x: Entry("generic.wide_functions", f"{x}_f32") for x in WIDE}
PAIRS = {
    name: Entry("generic.wide_pairs", f"{name}_f32")
    for name in ("atan2", "logaddexp", "remainder", "floor_divide")
}
softplus_f32 = Entry("generic.float_maps", "softplus_f32")
softmax_f32 = Entry("generic.float_rows", "softmax_f32")
softmax_columns_f32 = Entry("generic.float_rows", "softmax_columns_f32")
log_softmax_f32 = Entry("generic.float_rows", "log_softmax_f32")
log_softmax_columns_f32 = Entry("generic.float_rows", "log_softmax_columns_f32")
normalize_f32 = Entry("generic.float_rows", "normalize_f32")
#: The default of RMS norm.
EPS = np.finfo(np.float32).eps
#: Stands for weights or biases that a norm does not have.
NOTHING = np.zeros(0, F32)


def in_a_row(array):
    """Return the elements as a writable 1-D array, copied only if they must be."""
    if not array.flags.carray:
        array = np.array(array, order="C")
    return array if array.ndim == 1 else array.reshape(-1)


# Eager calls, traces and plans run one definition (decision 0067).
def map_f32(name, x):
    """Return a function of `FUNCTIONS` of each element, as a fresh array of float32.

    A transposed array is read, and its result lies, as it does.
    """
    return _map(FUNCTIONS[name], x)


def softplus(x, beta, threshold):
    """Return log(1 + e ** (beta · x)) / beta; x where beta · x is above `threshold`."""
    return _map(softplus_f32, x, F32.type(beta), F32.type(threshold))


def _map(entry, x, *numbers):
    """Return a function of each element and of numbers, as a fresh array."""
    flags = x.flags
    # A call of few elements takes as long as its Python code.
    if x.ndim == 1 and flags.carray and x.nbytes < LARGE:
        entry.call(x, *numbers, out := np.empty_like(x))
        if observe.ACTIVE:
            observe.ran(entry.__name__, "generic")
        return out
    if flags.f_contiguous and not flags.c_contiguous:
        return _map(entry, x.T, *numbers).T
    out = empty(x.shape, F32, LARGE)
    given, flat = in_a_row(x), out if out.ndim == 1 else out.reshape(-1)
    if POOL.is_alone(out.size):
        entry.call(given, *numbers, flat)
    else:
        POOL.spread(lambda a, b: entry.call(given[a:b], *numbers, flat[a:b]), out.size)
    if observe.ACTIVE:
        observe.ran(entry.__name__, "generic")
    return out


# float64 needs no branches, and rounds once (decision 0106).
def map_pairs(name, x1, x2):
    """Return a function of `PAIRS` of two arrays of one shape, as a fresh array."""
    entry, out = PAIRS[name], empty(x1.shape, F32, LARGE)
    first, second, flat = in_a_row(x1), in_a_row(x2), out.reshape(-1)
    if POOL.is_alone(out.size):
        entry.call(first, second, flat)
    else:
        POOL.spread(
            lambda a, b: entry.call(first[a:b], second[a:b], flat[a:b]), out.size
        )
    if observe.ACTIVE:
        observe.ran(entry.__name__, "generic")
    return out


def softmax(x, axis):
    """Return e ** (x - most) / sum of e ** (x - most) along an axis from the front."""
    return _along(softmax_f32, softmax_columns_f32, x, axis)


def log_softmax(x, axis):
    """Return x - most - log(sum of e ** (x - most)) along an axis from the front."""
    return _along(log_softmax_f32, log_softmax_columns_f32, x, axis)


def _along(of_rows, of_columns, x, axis):
    """Return what a kernel computes along an axis from the front."""
    out = empty(x.shape, F32, LARGE)
    if out.size:
        inner = prod(x.shape[axis + 1 :])
        rows, result = in_a_row(x), out.reshape(-1)
        if inner == 1:
            _run(of_rows, rows, x.shape[axis], result)
        else:
            _run(of_columns, rows, x.shape[axis], inner, result)
    return out


def layer_norm(x, count, weight, bias, eps):
    """Return (x - mean) / sqrt(var + eps) · weight + bias over the last axes."""
    return _normalize(x, count, 1, eps, weight, bias)


def rms_norm(x, count, weight, eps):
    """Return x / sqrt(mean(x²) + eps) · weight over the last `count` axes."""
    return _normalize(x, count, 0, EPS if eps is None else eps, weight, None)


def _normalize(x, count, is_centered, eps, weight, bias):
    out = empty(x.shape, F32, LARGE)
    if out.size:
        size = prod(x.shape[x.ndim - count :])
        affine = [NOTHING if a is None else _weights(a) for a in (weight, bias)]
        numbers = size, is_centered, F32.type(eps)
        _run(normalize_f32, in_a_row(x), *numbers, *affine, out.reshape(-1))
    return out


def _weights(a):
    """Return weights as a row of float32, rounded once."""
    return in_a_row(promote(a, F32))


def _run(entry, *arguments):
    entry.call(*arguments)
    if observe.ACTIVE:
        observe.ran(entry.__name__, "generic")


#: What `kernels/numpy/float32.py` calls, by the names of its functions.
CALLS: dict = {name: partial(map_f32, name) for name in FUNCTIONS}
CALLS |= {name: partial(map_pairs, name) for name in PAIRS}
CALLS |= {
    "softplus": softplus,
    "log_softmax": log_softmax,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
}
