"""Shadow tensors: values with a reference in float64."""

from mdtensor.quant.shadows.tensor import (
    SHADOW as SHADOW,
    ShadowTensor as ShadowTensor,
    run_both as run_both,
    shadow as shadow,
    with_reference as with_reference,
)
