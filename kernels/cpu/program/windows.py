"""The window of a step, as compiled code reads it."""

from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.program import Window


@kernel
def window_of(step):
    """Return the window of a step as the tuple that kernels take."""
    w = step.window
    return Window(
        w.height,
        w.width,
        w.channels,
        w.kernel_h,
        w.kernel_w,
        w.stride_h,
        w.stride_w,
        w.pad_top,
        w.pad_left,
        w.dilation_h,
        w.dilation_w,
        w.out_h,
        w.out_w,
    )
