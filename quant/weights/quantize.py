"""The front door: float weights in, codes on a grid and their error out."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdtensor import DType, OptionError
from mdtensor.errors import shown
from mdtensor.quant.dtypes import qint8
from mdtensor.quant.weights.algorithms import awq, gptq, hqq, mse, rtn
from mdtensor.quant.weights.format import FloatArray, WeightFormat, matrix
from mdtensor.quant.weights.layer import Layer, QuantizedWeights, Rounded, real_weights
from mdtensor.quant.weights.moments import moments_of

#: The algorithms by name.
METHODS: dict[str, Callable[..., Rounded]] = {
    "rtn": rtn,
    "mse": mse,
    "hqq": hqq,
    "awq": awq,
    "gptq": gptq,
}


def quantize_weights(
    weights: Any,
    *,
    method: str = "rtn",
    samples: Any = None,
    dtype: DType = qint8,
    bits: int | None = None,
    axis: int | None = 0,
    block_size: int | None = None,
    symmetric: bool = True,
    **options: Any,
) -> QuantizedWeights:
    """Weights of a layer as codes on a grid, by a named algorithm.

        rtn    round to nearest                            needs no samples
        mse    the range with the least squared error      needs no samples
        hqq    grids that outliers move little             needs no samples
        awq    finer steps where inputs are large          samples; scales the inputs
        gptq   later weights make good what rounding did   samples

    Args:
        weights: [outputs, inputs] of `linear`, or [outputs, inputs, height, width] of
            `conv2d`, whose axes behind the first count as inputs.
        method: one of those above.
        samples: what the layer reads: an array or tensor [..., inputs], an iterable of
            such, which is read once and not kept, or `InputMoments`. For `conv2d`, its
            `patches`; a group of channels is a layer of its own.
        dtype: type of the codes: qint4, quint4, qint8, quint8 or qint16.
        bits: use only so many of the type's bits: 3 of qint4, 7 of qint8.
        axis: 0 for a scale for each output, None for one.
        block_size: a scale for so many inputs of one output; weights of two axes.
        symmetric: zero point 0, as many codes below as above: -127 to 127. Otherwise
            the range of the weights, widened to hold 0, takes all codes.
        options: of the method: `damping` and `act_order` of gptq, `candidates` of awq,
            `norm`, `beta`, `growth` and `steps` of hqq.

    Returns:
        The quantized tensor, what the inputs are to be divided by, if anything, and
        the relative errors of weights and, with samples, of outputs.

    Raises:
        OptionError: an unknown method or option; a method without the samples it
            needs; codes or scales that there are not.
        ShapeError: fewer than two axes, or none of a size; blocks for more than two;
            samples of another number of inputs.
        DataError: a NaN or an infinity, or no samples.
        LinAlgError: samples that do not determine what gptq asks of them.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> w, x = rng.standard_normal((8, 32)), rng.standard_normal((64, 32))
        >>> plain = quantize_weights(w, dtype="qint4", samples=x)
        >>> better = quantize_weights(w, dtype="qint4", samples=x, method="gptq")
        >>> better.output_error < plain.output_error
        True
        >>> type(better.tensor).__name__, better.tensor.shape
        ('QInt4Tensor', (8, 32))

    Source: the papers that `mdtensor.quant.weights` names for each algorithm.
    """
    chosen = _method(method)
    check_options(quantize_weights, method, options)
    form = WeightFormat(dtype, bits, axis, block_size, symmetric)
    real = real_weights(weights)
    flat = matrix(real)
    form.check_shape(real.shape)
    inputs = None if samples is None else moments_of(samples, flat.shape[1])
    found = chosen(Layer(flat, form, inputs), **options)
    scale = found.input_scale
    return QuantizedWeights(
        found.tensor(real.shape),
        method,
        None if scale is None else scale.astype(np.float32),
        _relative(found.numbers, flat),
        None if inputs is None else inputs.error(found.numbers, flat),
    )


def _relative(found: FloatArray, wanted: FloatArray) -> float:
    right = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(found - wanted)) / right if right else 0.0


def _method(name: Any) -> Callable[..., Rounded]:
    """The algorithm.

    Raises:
        OptionError: there is none.
    """
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise OptionError(f"no method {shown(name)}", f"There are {known}")
    return METHODS[name]


def check_options(
    call: Callable[..., Any], method: str, options: Mapping[str, Any]
) -> None:
    """Raise unless a method takes these options.

    Args:
        call: what was called, with options of its own besides.
        method: one of `METHODS`.
        options: by name.

    Raises:
        OptionError: with all that there are.
    """
    own = [*inspect.signature(METHODS[method]).parameters][1:]
    for option in options:
        if option not in own:
            parameters = inspect.signature(call).parameters.values()
            known = ", ".join(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
            more = f"{method} has {', '.join(own) or 'no others'}"
            raise OptionError(
                f"no option {option!r}", f"There are {known}; {more}", call.__name__
            )
