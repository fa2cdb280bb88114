"""Methods for dense tensors, by family. Importing this package registers them."""

from mdtensor.ops import (
    activation as activation,
    arithmetic as arithmetic,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    exponential as exponential,
    indexing as indexing,
    manipulation as manipulation,
    matmul as matmul,
    normalization as normalization,
    pool as pool,
    reduction as reduction,
    trigonometry as trigonometry,
)
