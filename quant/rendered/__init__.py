"""Quantized tensors on devices that run rendered loops.

    types         a sibling of each integer type of codes, for every such device
    tables        elementwise functions of 8-bit codes: look up what the host computes
    conversion    quantize, dequantize, requantize
    products      matmul, linear, conv2d: exact sums, rounded once in the same kernel
    weights       linear of floats with codes as weights, of 4 bits, too
    pool          pools and reductions
    movement      views and copies of codes

Results have the bytes of the host. `mdtensor.extend.on_rendered_device` calls
`register` for each device, also for those that come later.
"""

from mdtensor import Device
from mdtensor.quant.rendered import types

__all__ = ["register"]


def register(device: Device) -> None:
    """Declare the quantized types of a device, and add the methods of this package.

    A device without float32 gets none: scales and real values are of this type.
    """
    if not types.has_scales(device):
        return
    # Here, because most programs have no such device and need none of these.
    from mdtensor.quant.rendered import (
        conversion,
        movement,
        pool,
        products,
        tables,
        weights,
    )

    types.declare(device)
    for family in (conversion, products, weights, pool, movement, tables):
        family.register(device)
