"""Methods for quantized tensors, by family. Importing this package registers them."""

from mdtensor.quant.ops import (
    activation as activation,
    arithmetic as arithmetic,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    creation as creation,
    float8 as float8,
    indexing as indexing,
    manipulation as manipulation,
    math as math,
    matmul as matmul,
    normalization as normalization,
    pool as pool,
    reduction as reduction,
    refusals as refusals,
    scalars as scalars,
    sorting as sorting,
)
