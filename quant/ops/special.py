"""Special functions of codes: tables, correctly rounded."""

from typing import Any

from mdtensor import (
    erf,
    method,
)
from mdtensor.quant.deduction import curve
from mdtensor.quant.lookup import functions
from mdtensor.quant.ops.activation import looked_up, step_of
from mdtensor.quant.ops.bound import bound
from mdtensor.quant.tensor import NarrowTensor


@method(erf, deduce=curve, prepare=step_of(functions.erf))
@bound
def erf(x: NarrowTensor, /, *, out: Any = None) -> Any:
    return looked_up(erf, functions.erf, x, out)
