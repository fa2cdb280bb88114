"""Methods for dense tensors, by family. Importing this package registers them."""

from mdtensor.ops import (
    activation as activation,
    arithmetic as arithmetic,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    exponential as exponential,
    floating as floating,
    indexing as indexing,
    logic as logic,
    manipulation as manipulation,
    matmul as matmul,
    normalization as normalization,
    parts as parts,
    pool as pool,
    reduction as reduction,
    rounding as rounding,
    trigonometry as trigonometry,
)
