"""The public function `quantize_weights`, and the algorithms by name."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdtensor import DType, OptionError
from mdtensor.errors import shown
from mdtensor.extend import explain_wrong_calls
from mdtensor.quant.weights.algorithms import awq, gptq, hqq, mse, rtn
from mdtensor.quant.weights.format import (
    FloatArray,
    WeightFormat,
    matrix,
    type_for_bits,
    type_of_codes,
)
from mdtensor.quant.weights.layer import Layer, QuantizedWeights, Rounded, real_weights
from mdtensor.quant.weights.moments import moments_of

#: The algorithms by name; each is a function of a `Layer` and its own options.
METHODS: dict[str, Callable[..., Rounded]] = {
    "rtn": rtn,
    "mse": mse,
    "hqq": hqq,
    "awq": awq,
    "gptq": gptq,
}


@explain_wrong_calls
def quantize_weights(
    weights: object,
    *,
    method: str = "rtn",
    samples: object = None,
    dtype: DType | str | None = None,
    bits: int | None = None,
    axis: int | None = 0,
    block_size: int | None = None,
    symmetric: bool = True,
    **options: Any,
) -> QuantizedWeights:
    """Quantize the weights of a layer by a named algorithm.

        rtn    round to nearest                                without samples
        mse    the range with the least squared error          without samples
        hqq    grids that outliers change little               without samples
        awq    finer weights where inputs are large            samples; scales inputs
        gptq   later weights compensate for earlier rounding   samples

    Args:
        weights: [outputs, inputs] for `linear`, or [outputs, inputs, height, width] for
            `conv2d`, where all axes after the first count as inputs.
        method: one of the names above.
        samples: inputs of the layer: an array or tensor [..., inputs], an iterable of
            them, which is read once and not stored, or `InputMoments`. For `conv2d`,
            pass its `patches`; quantize each group of channels as a layer of its own.
        dtype: element type of the codes: qint4, quint4, qint8, quint8 or qint16; None
            for qint4 if `bits` is at most 4, otherwise qint8.
        bits: use only this many of the type's bits: 3 of qint4, 7 of qint8.
        axis: 0 for a scale for each output, None for one scale.
        block_size: how many inputs of an output share a scale; only for weights with
            two axes.
        symmetric: the zero point is 0, and -c is a code if c is: -127 to 127.
            Otherwise all codes cover the range of the weights, widened to include 0.
        options: options of the method: `damping` and `act_order` of gptq, `candidates`
            of awq, `norm`, `beta`, `growth` and `steps` of hqq.

    Returns:
        The quantized tensor, the scale by which you must divide the inputs if the
        method is awq, and the relative errors of weights and, with samples, of outputs.

    Raises:
        OptionError: the method or an option is unknown; samples are missing; or the
            format of the codes does not exist.
        ShapeError: the weights are empty or have fewer than two axes; blocks for more
            than two axes; or the samples have another number of inputs.
        DataError: a NaN or an infinity, or `samples` is empty.
        LinAlgError: the samples are too few or too similar for gptq.

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
    # Check all options before the samples are read, which may take long.
    chosen = _method(method)
    codes = type_for_bits(bits) if dtype is None else type_of_codes("dtype", dtype)
    check_options(quantize_weights, method, options)
    form = WeightFormat(codes, bits, axis, block_size, symmetric)
    real = real_weights(weights)
    flat = matrix(real)
    form.check_shape(real.shape)
    # `rtn` does not need samples, but they give the error of the outputs.
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


def _method(name: object) -> Callable[..., Rounded]:
    """Return the algorithm of this name.

    Raises:
        OptionError: the name is unknown; the error lists all names.
    """
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise OptionError(f"method is {shown(name)}", f"Use one of {known}")
    return METHODS[name]


def check_options(
    call: Callable[..., Any], method: str, options: Mapping[str, Any]
) -> None:
    """Check that a method accepts these options.

    Args:
        call: the public function, whose keywords the error lists too.
        method: one of `METHODS`.
        options: the options by name.

    Raises:
        OptionError: an option is unknown; the error lists all options.
    """
    # Read from the signature, so that a new algorithm cannot forget to list an option;
    # the first parameter is the layer.
    own = [*inspect.signature(METHODS[method]).parameters][1:]
    for option in options:
        if option not in own:
            parameters = inspect.signature(call).parameters.values()
            known = ", ".join(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
            more = f"{method} has {', '.join(own) or 'no others'}"
            raise OptionError(
                f"no option {option!r}", f"There are {known}; {more}", call.__name__
            )
