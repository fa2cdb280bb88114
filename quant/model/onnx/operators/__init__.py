"""Readers of ONNX's operators: one small function for each, in a file for each family.

Where the meaning of an operator changed between operator sets, its reader checks the
version. A feature that is not supported raises; it is never approximated.
"""

from mdtensor.quant.model.onnx.operators import (
    chance as chance,
    einsum as einsum,
    elementwise as elementwise,
    features as features,
    fourier as fourier,
    fused as fused,
    heads as heads,
    labels as labels,
    linear as linear,
    manipulation as manipulation,
    recurrent as recurrent,
    reduction as reduction,
    rotary as rotary,
    sampling as sampling,
    scatter as scatter,
    selection as selection,
    sequences as sequences,
    subgraphs as subgraphs,
    svm as svm,
    transposed as transposed,
    trees as trees,
    windows as windows,
)
from mdtensor.quant.model.onnx.operators.table import READERS as READERS
