"""Sizes that softmax and norms of codes are limited to, and their number formats."""

from mdtensor.kernels.cpu.multipliers import LIMB_BITS

#: Softmax: differences between two codes.
DIFFERENCES = 256
#: Softmax: limbs of the integers that decide near ties; all but the last have LIMB_BITS
#: bits.
SHARE_LIMBS = 8
#: Softmax: binary places of these integers.
SHARE_BITS = LIMB_BITS * (SHARE_LIMBS - 1)
#: The longest row of softmax: a sum of this many limbs, times 2 * 512, fits int64.
SOFTMAX_LENGTH = 1 << 24
#: The longest row of a norm: deviations fit int32, and energies int64.
NORM_LENGTH = 1 << 20
