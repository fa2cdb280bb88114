"""New tensors on the grid of another tensor, filled with one number; and `to`."""

from typing import Any

import numpy as np

from mdtensor import (
    Device,
    TensorSpec,
    empty_like,
    full_like,
    method,
    ones_like,
    zeros_like,
)
from mdtensor.errors import checked
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.conversion import cast_spec
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.tensor import QuantizedTensor, quantized, spec_of


def _infer_fill(
    x: TensorSpec,
    *,
    fill_value: object = 0,
    dtype: object = None,
    device: object = None,
) -> TensorSpec:
    """Infer a fill: the shape of `x` on its grid or on `dtype`.

    Raises:
        CastError: the grid does not have a code for the number.
    """
    spec = cast_spec(x, x.dtype if dtype is None else dtype, device=device)
    for single in singles(spec.qparams):
        codes_of(single, (), fill_value)
    return spec


def _infer_ones(x: TensorSpec, **options: Any) -> TensorSpec:
    # The declaration does not have `fill_value`, but the grid must hold 1.
    return _infer_fill(x, fill_value=1, **options)


def _fill(
    name: str, x: QuantizedTensor, fill_value: object, **options: Any
) -> QuantizedTensor:
    def infer() -> TensorSpec:
        return _infer_fill(spec_of(x), fill_value=fill_value, **options)

    spec = checked(name, (x,), infer)
    # `codes_of` returns a read-only view, and the caller may write into the result.
    codes = np.array(codes_of(spec.qparams, spec.shape, fill_value))
    return quantized(codes, spec.qparams)


@method(full_like, deduce=_infer_fill)
def full_like(
    x: QuantizedTensor,
    /,
    *,
    fill_value: object,
    dtype: object,
    device: Device | str | None,
) -> QuantizedTensor:
    return _fill("full_like", x, fill_value, dtype=dtype, device=device)


@method(zeros_like, deduce=_infer_fill)
def zeros_like(
    x: QuantizedTensor, /, *, dtype: object, device: Device | str | None
) -> QuantizedTensor:
    return _fill("zeros_like", x, 0, dtype=dtype, device=device)


@method(ones_like, deduce=_infer_ones)
def ones_like(
    x: QuantizedTensor, /, *, dtype: object, device: Device | str | None
) -> QuantizedTensor:
    return _fill("ones_like", x, 1, dtype=dtype, device=device)


@method(empty_like, deduce=_infer_fill)
def empty_like(
    x: QuantizedTensor, /, *, dtype: object, device: Device | str | None
) -> QuantizedTensor:
    return _fill("empty_like", x, 0, dtype=dtype, device=device)
