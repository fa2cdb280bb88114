"""Convolution methods for dense tensors on the host."""

from typing import Union

from mdtensor.dispatch.operation import method
from mdtensor.generics.conv import conv1d, conv2d, conv_transpose2d
from mdtensor.kernels.numpy import conv as kernel
from mdtensor.ops import steps
from mdtensor.ops.operands import deduced
from mdtensor.spec.windows import conv1d_window, conv_window
from mdtensor.tensor import Tensor
from mdtensor.types import NumericTensor


@method(conv2d, prepare=steps.conv2d_step)
def conv2d(
    x: NumericTensor,
    w: NumericTensor,
    b: Union[NumericTensor, None],
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Tensor:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    spec = deduced(conv2d, x, w, b, **options, groups=groups)
    result: type[Tensor] = spec.type
    window = conv_window(w.shape, **options)
    y = kernel.conv2d(
        x.buffer,
        w.buffer,
        b if b is None else b.buffer,
        window.stride,
        window.padding,
        window.dilation,
        int(groups),
        result.dtype.storage,
    )
    return result.wrap(y)


@method(conv1d)
def conv1d(
    x: NumericTensor,
    w: NumericTensor,
    b: Union[NumericTensor, None],
    /,
    *,
    stride: object,
    padding: object,
    dilation: object,
    groups: int,
) -> Tensor:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    result: type[Tensor] = deduced(conv1d, x, w, b, **options, groups=groups).type
    # A 1-d convolution is a 2-d one whose images have the height 1.
    window = conv1d_window(w.shape, **options)
    y = kernel.conv2d(
        x.buffer[:, :, None],
        w.buffer[:, :, None],
        b if b is None else b.buffer,
        window.stride,
        window.padding,
        window.dilation,
        int(groups),
        result.dtype.storage,
    )
    return result.wrap(y[:, :, 0])


@method(conv_transpose2d)
def conv_transpose2d(
    x: NumericTensor,
    w: NumericTensor,
    b: Union[NumericTensor, None],
    /,
    *,
    stride: object,
    padding: object,
    output_padding: object,
    groups: int,
    dilation: object,
) -> Tensor:
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    more = {"output_padding": output_padding, "groups": groups}
    spec = deduced(conv_transpose2d, x, w, b, **options, **more)
    result: type[Tensor] = spec.type
    window = conv_window(w.shape, **options)
    y = kernel.conv_transpose2d(
        x.buffer,
        w.buffer,
        b if b is None else b.buffer,
        window.stride,
        window.padding,
        window.dilation,
        int(groups),
        # The window does not determine the size: `output_padding` selects one of
        # several.
        spec.shape[2:],
        result.dtype.storage,
    )
    return result.wrap(y)
