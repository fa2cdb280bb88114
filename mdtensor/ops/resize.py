"""Methods that resize images in dense tensors on the host."""

from typing import Any

from mdtensor.dispatch.operation import method
from mdtensor.errors import OptionError
from mdtensor.generics.resize import (
    distances,
    interpolate,
    pixel_shuffle,
    pixel_unshuffle,
)
from mdtensor.kernels.numpy import resize as kernel
from mdtensor.ops import steps
from mdtensor.ops.operands import Dense, deduced
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import single
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor


def interpolate_step(
    x: TensorSpec,
    /,
    *,
    size: object,
    scale_factor: object,
    mode: str,
    align_corners: bool | None,
) -> Any:
    """Return the step of a resize of float32 images."""
    # It loads numba, so it loads on use.
    from mdtensor.kernels.cpu.program.resize import Resize

    steps.require_float32(x)
    steps.require_sizes(x)
    options = {"size": size, "scale_factor": scale_factor, "mode": mode}
    spec = deduced(interpolate, x, **options, align_corners=align_corners)
    new = spec.shape[2:]
    if 0 in new:
        raise OptionError("a compiled resize has at least one pixel")
    pairs = zip(x.shape[2:], new, distances(x.shape, new, scale_factor), strict=True)
    rows, columns = (kernel.taps_of(*pair, mode, bool(align_corners)) for pair in pairs)
    return Resize(columns, rows)


@method(interpolate, prepare=interpolate_step)
def interpolate(
    x: FloatingTensor,
    /,
    *,
    size: object,
    scale_factor: object,
    mode: str,
    align_corners: bool | None,
) -> Tensor:
    options = {"size": size, "scale_factor": scale_factor, "mode": mode}
    spec = deduced(interpolate, x, **options, align_corners=align_corners)
    new, steps = spec.shape[2:], distances(x.shape, spec.shape[2:], scale_factor)
    # None is the default of modes that do not have corners.
    corners = bool(align_corners)
    return x.wrap(kernel.interpolate(x.buffer, new, steps, mode, corners))


@method(pixel_shuffle, prepare=steps.pixel_shuffle_step)
def pixel_shuffle(x: Dense, /, *, upscale_factor: int) -> Tensor:
    shape = deduced(pixel_shuffle, x, upscale_factor=upscale_factor).shape
    r = single(upscale_factor, "upscale_factor", 1)
    return x.wrap(kernel.pixel_shuffle(x.buffer, r, shape))


@method(pixel_unshuffle, prepare=steps.pixel_unshuffle_step)
def pixel_unshuffle(x: Dense, /, *, downscale_factor: int) -> Tensor:
    shape = deduced(pixel_unshuffle, x, downscale_factor=downscale_factor).shape
    r = single(downscale_factor, "downscale_factor", 1)
    return x.wrap(kernel.pixel_unshuffle(x.buffer, r, shape))
