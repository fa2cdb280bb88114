"""Where codes are."""

from typing import Any

import numpy as np

from mdtensor import Int64Tensor, argmax, argmin, method
from mdtensor.errors import checked
from mdtensor.quant.deduction import one_grid
from mdtensor.quant.ops.refusals import require_per_tensor
from mdtensor.quant.tensor import AffineTensor, spec_of


@method(argmax, deduce=one_grid(argmax.operation.rule))
def argmax(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    return _place("argmax", x, axis, keepdims)


@method(argmin, deduce=one_grid(argmin.operation.rule))
def argmin(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    return _place("argmin", x, axis, keepdims)


def _place(name: str, x: Any, axis: Any, keepdims: bool) -> Int64Tensor:
    """Codes have the order of the numbers."""
    require_per_tensor(name, x)
    rule = argmax.operation.rule  # that of both
    spec = checked(name, (x,), lambda: rule(spec_of(x), axis=axis, keepdims=keepdims))
    one = axis if axis is None else int(axis)
    found = np.asarray(getattr(x.codes.buffer, name)(axis=one))
    return Int64Tensor.wrap(found.astype(np.int64).reshape(spec.shape))
