"""Methods for quantized tensors, by family. Importing this package registers them."""

from mdtensor.quant.ops import (
    activation as activation,
    arithmetic as arithmetic,
    casting as casting,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    curves as curves,
    manipulation as manipulation,
    matmul as matmul,
    pool as pool,
    reduction as reduction,
    searching as searching,
)
