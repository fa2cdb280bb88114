"""Where the weights and the bias of a float convolution lie among its constants."""

from math import prod

import numpy as np

from mdtensor.kernels.cpu.entry import Entry
from mdtensor.kernels.cpu.float_calls import F32, NOTHING, in_a_row
from mdtensor.kernels.cpu.generic.float_packing import (
    BLOCK,
    block_count,
    padded_columns,
)
from mdtensor.kernels.cpu.program.kinds import ALIGN, ITEM, SLACK
from mdtensor.kernels.cpu.program.step import aligned_bytes

PACK_PANELS = Entry("generic.filter_packing", "pack_panels_f32")
PACK_BLOCKS = Entry("generic.filter_packing", "pack_blocks_f32")


class Filters:
    """The place of weights [oc, ic / groups, kh, kw] and of a bias [oc].

    Packed weights come first, then the bias of each group, in whole panels.

    Args: shape: of the weights.
    """

    def __init__(self, shape, groups):
        self.is_depthwise = groups > 1 and shape[1] == 1 and groups == shape[0]
        # A depthwise convolution has one row of blocks, and one bias.
        self.groups = 1 if self.is_depthwise else groups
        self.columns, self.depth = shape[0] // self.groups, prod(shape[1:])
        wide = padded = padded_columns(self.columns)
        self._entry = PACK_PANELS
        self._sizes = groups, shape[1], prod(shape[2:])
        if self.is_depthwise:
            wide = block_count(shape[0]) * BLOCK
            self._entry, self._sizes = PACK_BLOCKS, (groups,)
        size = wide * self.depth * ITEM
        bias = -(-self.groups * size // ALIGN) * ALIGN
        self.bytes = bias + self.groups * padded * ITEM + SLACK
        self.fields = {"weights": 0, "weight_bytes": size, "bias": bias}
        self.fields |= {"columns": self.columns, "padded_columns": padded}
        self.fields |= {"groups": groups, "out_channels": shape[0]}
        self.fields["depth"] = self.depth

    def pack(self, weight, bias=None, allocate=np.empty):
        """Return weights and bias as constants.

        Args:
            weight: float32, any strides.
            bias: float32 [oc], or None.
            allocate: makes the memory of the constants, as `np.empty` does.
        """
        packed = aligned_bytes(self.bytes, allocate)
        filters = in_a_row(weight)
        offsets = NOTHING if bias is None else in_a_row(bias)
        self._entry.call(filters, offsets, *self._sizes, packed.view(F32))
        return packed
