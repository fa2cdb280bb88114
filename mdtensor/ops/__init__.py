"""Methods for dense tensors, by family. Importing this package registers them."""

from mdtensor.ops import (
    conv as conv,
    conversion as conversion,
    elementwise as elementwise,
    manipulation as manipulation,
    matmul as matmul,
    pool as pool,
    reduction as reduction,
)
