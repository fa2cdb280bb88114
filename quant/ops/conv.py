"""Convolution of codes: an exact accumulator, or rounded once to `out`."""

from typing import Any, Union

import numpy as np
import numpy.typing as npt

from mdtensor import (
    FloatingTensor,
    Int64Tensor,
    Tensor,
    TensorSpec,
    conv2d,
    method,
)
from mdtensor.errors import checked
from mdtensor.extend import conv_shape, conv_window, shape_rule
from mdtensor.kernels.cpu.program import products
from mdtensor.quant import exact
from mdtensor.quant.codes import (
    unsigned_grid,
)
from mdtensor.quant.deduction import (
    check_row_scales,
    rounded_conv,
    type_of_floats,
    weight_only,
)
from mdtensor.quant.grids import combine
from mdtensor.quant.ops import blockwise
from mdtensor.quant.ops.bound import Run, bind_once, bind_product
from mdtensor.quant.ops.errors import (
    check_out,
    require_per_tensor,
)
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    attempt,
    make_step,
    require_8bit,
    require_output_grid,
    reuse_or_make,
)
from mdtensor.quant.ops.weight_only import (
    PackedLayer,
    compute_on_numbers,
    conv_layer,
    float_conv2d_step,
    is_product,
    is_single,
)
from mdtensor.quant.presets import rounding_rule
from mdtensor.quant.qparams import QParams
from mdtensor.quant.tensor import (
    QInt4Tensor,
    QInt8Tensor,
    QInt32Tensor,
    QuantizedTensor,
    ScaledFloatTensor,
    ShortTensor,
    quantized,
    spec_of,
)

#: Signed weights of 8 or 4 bits; kernels store both as 8 bits.
SignedWeights = Union[QInt8Tensor, QInt4Tensor]
Bias = Union[QInt32Tensor, None]


def conv2d_step(
    x: TensorSpec,
    w: ShortTensor,
    b: Bias,
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
    out: QParams | None = None,
) -> products.Conv2d | products.Repeated:
    """Return the step of packed weights; it reads and writes codes channels last.

    Raises:
        NotCompiled: kernels cannot compute it.
    """
    window = conv_window(w.shape, stride, padding, dilation)
    options = {"stride": window.stride, "padding": window.padding, "groups": groups}
    options |= step_options(x.qparams, w, b, out)
    bias = None if b is None else b.buffer
    options |= {"dilation": window.dilation}
    made: products.Conv2d | products.Repeated = make_step(
        lambda: products.conv2d(exact.steps_of(w), bias, **options)
    )
    return made


def step_options(x: QParams, w: Any, b: Any, out: QParams | None) -> dict[str, Any]:
    """Return the options of a step of products that follow from the grids.

    Raises:
        NotCompiled: kernels do not take the weights, or cannot write `out`.
    """
    _check_weights(w, b)
    combine.check_bias_grid(x, w, b)
    source = unsigned_grid(require_8bit(x))
    found: dict[str, Any] = {"x_zero_point": source.zero}
    if out is not None:
        target = unsigned_grid(require_output_grid(out))
        unit = source.fraction / target.fraction
        ratios = [unit * scale for scale in w.qparams.fractions]
        # Kernels read one ratio per output channel.
        ratios = ratios if len(ratios) > 1 else ratios * w.shape[0]
        found |= {"ratios": ratios, "zero_point": target.zero}
    return found


def _check_weights(w: Any, b: Any) -> None:
    if isinstance(w, TensorSpec) or isinstance(b, TensorSpec):
        raise NotCompiled("kernels need constant weights and biases")
    require_8bit(w.qparams)
    if not w.qparams.is_along(None, 0):
        raise NotCompiled("compiled weights have scales on axis 0")
    if w.size == 0:
        raise NotCompiled("there are no weights")
    magnitudes = np.abs(exact.steps_of(w)).reshape(w.shape[0], -1)
    offsets = 0 if b is None else np.abs(b.buffer.astype(np.int64))
    # Kernels add in int32, and a code as an unsigned byte is at most 255.
    worst = int((255 * magnitudes.sum(axis=1) + offsets).max(initial=0))
    if worst >= 2**31:
        raise NotCompiled(f"a sum could reach {worst}, beyond 2**31 - 1")


@method(conv2d, deduce=rounded_conv, prepare=conv2d_step)
@bind_once
def conv2d(
    x: ShortTensor,
    w: ShortTensor,
    b: Bias,
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
    out: QParams | None = None,
) -> Run:
    options = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    # All checks come before the kernel is chosen: a hit of the cache skips them.
    _check("conv2d", x, w, b, out, **options)
    if rounding_rule("conv2d", out):
        return lambda x, w, b: rounding_rule("conv2d", out)(x, w, b, out, **options)
    if not w.qparams.is_along(None, 0):
        window = conv_window(w.shape, stride, padding, dilation)
        return lambda x, w, b: quantized(
            blockwise.conv2d_codes(x, w, b, window, groups, out), out
        )
    spec = spec_of(x)
    return bind_product(
        lambda w, b: attempt(conv2d_step, spec, w, b, **options, out=out),
        x,
        combine.of_products(x.qparams, w.qparams, 1) if out is None else out,
        lambda x, w, b: _by_integers(x, w, b, options, out),
        is_image=True,
    )


@method(conv2d, deduce=weight_only(shape_rule(conv2d)), prepare=float_conv2d_step)
def conv2d(
    x: FloatingTensor,
    w: Union[ShortTensor, ScaledFloatTensor],
    b: Union[FloatingTensor, None],
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Tensor:
    """Compute with floats and quantized weights, which stay packed codes.

    Depthwise weights are few and do not make a matrix product: they are dequantized.
    """
    places = {"stride": stride, "padding": padding, "dilation": dilation}
    _check_shapes("conv2d", x, w, b, **places, groups=groups)
    if not (is_single(x, b) and is_product(w, groups)):
        return compute_on_numbers(conv2d, x, w, b, **places, groups=groups)
    dtype, window = type_of_floats(x, b), conv_window(w.shape, **places)
    layer = reuse_or_make(
        lambda w, b: PackedLayer(conv_layer(w, b, window, groups), dtype),
        ("conv2d", dtype.name, window, groups),
        *(w, b),
    )
    return layer(x)


@method(conv2d, deduce=weight_only(shape_rule(conv2d)))
def conv2d(
    x: ScaledFloatTensor,
    w: ScaledFloatTensor,
    b: Union[FloatingTensor, None],
    /,
    **options: Any,
) -> Tensor:
    """Compute products of 8-bit floats, summed in float32."""
    return compute_on_numbers(conv2d, x, w, b, **options)


def _check(
    name: str,
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    out: QParams | None,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> None:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    _check_shapes(name, x, w, b, **options, groups=groups)
    check_grids(name, x, w, b, out)


def _check_shapes(
    name: str, x: Tensor, w: Tensor, b: Tensor | None, *, groups: int, **options: Any
) -> None:
    def rule() -> None:
        window = conv_window(w.shape, **options)
        conv_shape(x.shape, w.shape, None if b is None else b.shape, window, groups)

    checked(name, tuple(t for t in (x, w, b) if t is not None), rule)


def check_grids(
    name: str,
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    out: QParams | None,
) -> None:
    """Check the grids of a product: operands, bias and `out`.

    Raises:
        GridError: scales differ inside a sum without `out`, or the bias is on another
            grid than the products.
        OptionError: `out` is not a QParams.
    """
    # `x` has one scale, since each output adds over all its channels.
    given = tuple(t for t in (x, w, b) if t is not None)
    require_per_tensor(name, x, others=given[1:])
    if out is not None:
        check_out(name, out, *given)
    checked(name, given, lambda: check_row_scales(x, w, b, is_rounded=out is not None))


def _by_integers(
    x: QuantizedTensor,
    w: QuantizedTensor,
    b: QuantizedTensor | None,
    options: dict[str, Any],
    out: QParams | None,
) -> QuantizedTensor:
    """Return the result for any zero points, computed slowly with 64-bit integers."""
    steps_of_x, steps_of_w = (Int64Tensor.wrap(exact.steps_of(t)) for t in (x, w))
    bias = None if b is None else Int64Tensor.wrap(b.buffer.astype(np.int64))
    sums = conv2d(steps_of_x, steps_of_w, bias, **options).buffer
    grid = combine.of_products(x.qparams, w.qparams, 1)
    return finish("conv2d", sums, grid, out, x, w)


def finish(
    name: str,
    sums: npt.NDArray[np.int64],
    grid: QParams,
    out: QParams | None,
    *arguments: Tensor,
) -> QuantizedTensor:
    """Return 64-bit sums as a 32-bit accumulator, or rounded to `out`.

    Raises:
        CastError: a sum does not fit 32 bits and `out` is None.
    """
    if out is not None:
        return quantized(exact.rescale(sums, grid, out), out)
    checked(name, arguments, lambda: combine.check_fits(sums))
    return QInt32Tensor.wrap(sums.astype(np.int32), grid)
