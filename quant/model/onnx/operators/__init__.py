"""The operators of ONNX as operations: one small function for each, by family.

Where the meaning changed between versions of the operator set, the function asks for
the version. What is not supported is refused by name, never approximated.
"""

from mdtensor.quant.model.onnx.operators import (
    elementwise as elementwise,
    manipulation as manipulation,
    reduction as reduction,
    windows as windows,
)
from mdtensor.quant.model.onnx.operators.table import READERS as READERS
