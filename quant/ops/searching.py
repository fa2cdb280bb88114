"""Where codes are."""

from typing import Any

import numpy as np

from mdtensor import Int64Tensor, argmax, method
from mdtensor.errors import checked
from mdtensor.quant.deduction import one_grid
from mdtensor.quant.ops.refusals import require_per_tensor
from mdtensor.quant.tensor import AffineTensor, spec_of


@method(argmax, deduce=one_grid(argmax.operation.rule))
def argmax(x: AffineTensor, /, *, axis: Any, keepdims: bool) -> Int64Tensor:
    require_per_tensor("argmax", x)
    rule = argmax.operation.rule
    spec = checked(
        "argmax", (x,), lambda: rule(spec_of(x), axis=axis, keepdims=keepdims)
    )
    one = axis if axis is None else int(axis)
    found = np.asarray(x.codes.buffer.argmax(axis=one))
    return Int64Tensor.wrap(found.astype(np.int64).reshape(spec.shape))
