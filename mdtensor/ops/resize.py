"""Methods that resize images in dense tensors on the host."""

from fractions import Fraction

from mdtensor.dispatch.operation import method
from mdtensor.generics.resize import interpolate, pixel_shuffle, pixel_unshuffle, scales
from mdtensor.kernels.numpy import resize as kernel
from mdtensor.ops import steps
from mdtensor.ops.operands import Dense, deduced
from mdtensor.spec.windows import single
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor


@method(interpolate)
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
    new, old = spec.shape[2:], x.shape[2:]
    # Fractions, so that the sampling positions are exact.
    if scale_factor is None:
        steps = [Fraction(n, m) for n, m in zip(old, new, strict=True)]
    else:
        steps = [1 / scale for scale in scales(scale_factor)]
    # None is the default of modes that do not have corners.
    return x.wrap(kernel.interpolate(x.buffer, new, steps, mode, bool(align_corners)))


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
