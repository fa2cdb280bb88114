"""Methods for quantized tensors, by family. Importing this package registers them."""

from mdtensor.quant.ops import (
    activation as activation,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    elementwise as elementwise,
    manipulation as manipulation,
    matmul as matmul,
    pool as pool,
    reduction as reduction,
)
