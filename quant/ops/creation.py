"""Codes of one number, on the grid of another tensor; and tensors that stay there."""

from typing import Any, Union

import numpy as np

from mdtensor import (
    Device,
    DeviceError,
    TensorSpec,
    cpu,
    empty_like,
    full_like,
    method,
    ones_like,
    to,
    zeros_like,
)
from mdtensor.errors import checked
from mdtensor.quant.grids.combine import singles
from mdtensor.quant.ops.conversion import cast_spec
from mdtensor.quant.ops.scalars import codes_of
from mdtensor.quant.tensor import QuantizedTensor, quantized, spec_of


def _filled(
    x: TensorSpec, *, fill_value: Any = 0, dtype: Any = None, device: Any = None
) -> TensorSpec:
    """The shape of the argument, on its grid or on `dtype`, which has the number."""
    spec = cast_spec(x, x.dtype if dtype is None else dtype, device=device)
    for single in singles(spec.qparams):
        codes_of(single, (), fill_value)
    return spec


def _one(x: TensorSpec, **options: Any) -> TensorSpec:
    return _filled(x, fill_value=1, **options)


def _made(name: str, x: Any, fill_value: Any, **options: Any) -> Any:
    def made() -> TensorSpec:
        return _filled(spec_of(x), fill_value=fill_value, **options)

    spec = checked(name, (x,), made)
    codes = np.array(codes_of(spec.qparams, spec.shape, fill_value))
    return quantized(codes, spec.qparams)


@method(full_like, deduce=_filled)
def full_like(
    x: QuantizedTensor, /, *, fill_value: Any, dtype: Any, device: Any
) -> Any:
    return _made("full_like", x, fill_value, dtype=dtype, device=device)


@method(zeros_like, deduce=_filled)
def zeros_like(x: QuantizedTensor, /, *, dtype: Any, device: Any) -> Any:
    return _made("zeros_like", x, 0, dtype=dtype, device=device)


@method(ones_like, deduce=_one)
def ones_like(x: QuantizedTensor, /, *, dtype: Any, device: Any) -> Any:
    return _made("ones_like", x, 1, dtype=dtype, device=device)


@method(empty_like, deduce=_filled)
def empty_like(x: QuantizedTensor, /, *, dtype: Any, device: Any) -> Any:
    return _made("empty_like", x, 0, dtype=dtype, device=device)


def _stays(x: TensorSpec, device: Any) -> TensorSpec:
    if device not in (cpu, cpu.name):
        raise DeviceError(
            f"no grid on {device} yet", "Use dequantize(x), and move that"
        )
    return x


@method(to, deduce=_stays)
def to(x: QuantizedTensor, device: Union[Device, str], /) -> Any:
    checked("to", (x, device), lambda: _stays(spec_of(x), device))
    return x
