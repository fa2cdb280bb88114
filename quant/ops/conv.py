"""Convolution of codes: exact accumulators, or rounded once to `out`."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    FloatingTensor,
    Int64Tensor,
    LogicalTensor,
    NumericTensor,
    TensorSpec,
    conv2d,
    method,
)
from mdtensor.errors import checked
from mdtensor.generics.conv import convolution
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
from mdtensor.quant.ops.bound import bound, bound_product
from mdtensor.quant.ops.errors import (
    check_out,
    refuse_mixed,
    refused,
    require_per_tensor,
)
from mdtensor.quant.ops.kernels import (
    NotCompiled,
    attempt,
    compiled,
    held,
    kept,
    narrow,
)
from mdtensor.quant.ops.weight_only import (
    KeptLayer,
    conv_layer,
    is_product,
    is_single,
    kept_conv2d,
    of_numbers,
)
from mdtensor.quant.presets import ruled
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
from mdtensor.spec.windows import conv_shape, conv_window

#: Weights of 8 or 4 bits, which kernels hold with 8.
SignedWeights = Union[QInt8Tensor, QInt4Tensor]
Bias = Union[QInt32Tensor, None]
AnyBias = Union[NumericTensor, QuantizedTensor, None]


def conv2d_step(
    x: TensorSpec,
    w: ShortTensor,
    b: Bias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: QParams | None = None,
) -> products.Conv2d | products.Repeated:
    """Weights packed for this CPU; codes in and out are channels last."""
    window = conv_window(w.shape, stride, padding, dilation)
    options = {"stride": window.stride, "padding": window.padding, "groups": groups}
    options |= rounding_of(x.qparams, w, b, out)
    bias = None if b is None else b.buffer
    options |= {"dilation": window.dilation}
    made: products.Conv2d | products.Repeated = compiled(
        lambda: products.conv2d(exact.steps_of(w), bias, **options)
    )
    return made


def rounding_of(x: QParams, w: Any, b: Any, out: QParams | None) -> dict[str, Any]:
    """What a step of products needs to know of the grids.

    Raises:
        NotCompiled: weights that kernels do not take, or `out` is for integers.
    """
    _check_weights(w, b)
    combine.check_bias_grid(x, w, b)
    source = unsigned_grid(held(x))
    found: dict[str, Any] = {"x_zero_point": source.zero}
    if out is not None:
        target = unsigned_grid(narrow(out))
        unit = source.fraction / target.fraction
        ratios = [unit * scale for scale in w.qparams.fractions]
        ratios = ratios if len(ratios) > 1 else ratios * w.shape[0]
        found |= {"ratios": ratios, "zero_point": target.zero}
    return found


def _check_weights(w: Any, b: Any) -> None:
    if isinstance(w, TensorSpec) or isinstance(b, TensorSpec):
        raise NotCompiled("compiled weights and biases are constants")
    held(w.qparams)
    if not w.qparams.is_along(None, 0):
        raise NotCompiled("compiled weights have scales on axis 0")
    if w.size == 0:
        raise NotCompiled("there are no weights")
    magnitudes = np.abs(exact.steps_of(w)).reshape(w.shape[0], -1)
    offsets = 0 if b is None else np.abs(b.buffer.astype(np.int64))
    worst = int((255 * magnitudes.sum(axis=1) + offsets).max(initial=0))
    if worst >= 2**31:
        raise NotCompiled(f"a sum could reach {worst}, beyond 2**31 - 1")


@method(conv2d, deduce=rounded_conv, prepare=conv2d_step)
@bound
def conv2d(
    x: ShortTensor,
    w: ShortTensor,
    b: Bias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: Any = None,
) -> Any:
    options = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    _check("conv2d", x, w, b, out, **options)
    if ruled("conv2d", out):
        return lambda x, w, b: ruled("conv2d", out)(x, w, b, out, **options)
    if not w.qparams.is_along(None, 0):
        window = conv_window(w.shape, stride, padding, dilation)
        return lambda x, w, b: quantized(
            blockwise.conv2d_codes(x, w, b, window, groups, out), out
        )
    spec = spec_of(x)
    return bound_product(
        lambda w, b: attempt(conv2d_step, spec, w, b, **options, out=out),
        x,
        combine.of_products(x.qparams, w.qparams, 1) if out is None else out,
        lambda x, w, b: _by_integers(x, w, b, options, out),
        is_image=True,
    )


@method(conv2d, deduce=weight_only(convolution), prepare=kept_conv2d)
def conv2d(
    x: FloatingTensor,
    w: Union[ShortTensor, ScaledFloatTensor],
    b: Union[FloatingTensor, None],
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """Weight-only: products of what the window sees with the codes.

    Weights of one channel a group, few and in no product, become numbers.
    """
    places = {"stride": stride, "padding": padding, "dilation": dilation}
    _check_shapes("conv2d", x, w, b, **places, groups=groups)
    if not (is_single(x, b) and is_product(w, groups)):
        return of_numbers(conv2d, x, w, b, **places, groups=groups)
    dtype, window = type_of_floats(x, b), conv_window(w.shape, **places)
    layer = kept(
        lambda w, b: KeptLayer(conv_layer(w, b, window, groups), dtype),
        ("conv2d", dtype.name, window, groups),
        *(w, b),
    )
    return layer(x)


@method(conv2d, deduce=weight_only(convolution))
def conv2d(
    x: ScaledFloatTensor,
    w: ScaledFloatTensor,
    b: Union[FloatingTensor, None],
    /,
    **options: Any,
) -> Any:
    """Products of 8-bit floats, summed in float32."""
    return of_numbers(conv2d, x, w, b, **options)


@method(conv2d, deduce=refused("conv2d"))
def conv2d(
    x: Union[QuantizedTensor, NumericTensor],
    w: Union[QuantizedTensor, NumericTensor],
    b: AnyBias,
    /,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out: Any = None,
) -> Any:
    refuse_mixed("conv2d", x, w, b)


@method(conv2d, deduce=refused("conv2d"))
def conv2d(
    x: QuantizedTensor,
    w: LogicalTensor,
    b: AnyBias,
    /,
    *,
    out: Any = None,
    **options: Any,
) -> Any:
    refuse_mixed("conv2d", x, w, b)


@method(conv2d, deduce=refused("conv2d"))
def conv2d(
    x: LogicalTensor,
    w: QuantizedTensor,
    b: AnyBias,
    /,
    *,
    out: Any = None,
    **options: Any,
) -> Any:
    refuse_mixed("conv2d", x, w, b)


def _check(
    name: str,
    x: Any,
    w: Any,
    b: Any,
    out: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> None:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    _check_shapes(name, x, w, b, **options, groups=groups)
    check_grids(name, x, w, b, out)


def _check_shapes(
    name: str, x: Any, w: Any, b: Any, *, groups: int, **options: Any
) -> None:
    def rule() -> None:
        window = conv_window(w.shape, **options)
        conv_shape(x.shape, w.shape, None if b is None else b.shape, window, groups)

    checked(name, tuple(t for t in (x, w, b) if t is not None), rule)


def check_grids(name: str, x: Any, w: Any, b: Any, out: Any) -> None:
    """Refuse grids that products cannot leave, a bias on none of theirs, a bad `out`.

    Raises:
        GridError, OptionError: those.
    """
    given = tuple(t for t in (x, w, b) if t is not None)
    require_per_tensor(name, x, beside=given[1:])
    if out is not None:
        check_out(name, out, *given)
    checked(name, given, lambda: check_row_scales(x, w, b, is_rounded=out is not None))


def _by_integers(x: Any, w: Any, b: Any, options: dict[str, Any], out: Any) -> Any:
    """Any zero points, on 64-bit integers: exact, and as slow as that is."""
    steps_of_x, steps_of_w = (Int64Tensor.wrap(exact.steps_of(t)) for t in (x, w))
    bias = None if b is None else Int64Tensor.wrap(b.buffer.astype(np.int64))
    sums = conv2d(steps_of_x, steps_of_w, bias, **options).buffer
    grid = combine.of_products(x.qparams, w.qparams, 1)
    return finish("conv2d", sums, grid, out, x, w)


def finish(
    name: str, sums: Any, grid: QParams, out: QParams | None, *arguments: Any
) -> Any:
    """64-bit sums as an accumulator that fits 32 bits, or rounded to `out`."""
    if out is not None:
        return quantized(exact.rescale(sums, grid, out), out)
    checked(name, arguments, lambda: combine.check_fits(sums))
    return QInt32Tensor.wrap(sums.astype(np.int32), grid)
