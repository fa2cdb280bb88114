"""Methods for quantized tensors, by family. Importing this package registers them."""

from mdtensor.quant.ops import (
    activation as activation,
    arithmetic as arithmetic,
    assignment as assignment,
    casting as casting,
    comparison as comparison,
    conv as conv,
    conversion as conversion,
    copying as copying,
    creation as creation,
    curves as curves,
    manipulation as manipulation,
    matmul as matmul,
    numbers as numbers,
    pool as pool,
    reduction as reduction,
    scaled as scaled,
    searching as searching,
    sorting as sorting,
)
