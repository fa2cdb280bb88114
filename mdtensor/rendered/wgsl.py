"""Kernels in WGSL, for devices of other packages."""

from mdtensor.kernels.loops.ir import Loop
from mdtensor.kernels.loops.kernel import Kernel
from mdtensor.kernels.loops.wgsl import render


def render_wgsl(loop: Loop) -> Kernel:
    """Return the kernel of a loop in WGSL; its name ends with a hash of its text.

    Raises:
        UnsupportedLoopError: WGSL kernels lack a function or a type of the loop.
    """
    return render(loop)
