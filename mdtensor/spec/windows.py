"""Windows over images: valid sizes and options, and the number of positions.

Images are [n, c, h, w]. A size of -1 is dynamic, as in `mdtensor.spec.shapes`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.spec.options import flag
from mdtensor.spec.shapes import DYNAMIC, Shape, are_like, check_bias, integers, is_size

#: Windows are smaller; kernels compute with positions of 64 bits.
_MOST = 2**31


def _integers(value: object, name: str, fix: str, count: int = 1) -> tuple[int, ...]:
    """Return the integers of an option of windows, each of 32 bits.

    Raises:
        OptionError: the options are not integers, or too large.
    """
    found = integers(value, name, fix, count)
    if any(abs(n) >= _MOST for n in found):
        raise OptionError(f"{name} is {shown(value)}", fix)
    return found


def pair(value: object, name: str, least: int) -> tuple[int, int]:
    """Return `value` for height and width.

    Raises:
        OptionError: not one or two integers, or below `least`.
    """
    # Most calls give one integer, and then this test takes most of the time.
    if type(value) is int and least <= value < _MOST:
        return value, value
    fix = f"Use one or two integers of {least} or more"
    both = _integers(value, name, fix, 2)
    if len(both) != 2 or min(both) < least:
        raise OptionError(f"{name} is {shown(value)}", fix)
    return both


def padding4(value: object) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) from one, two (h, w) or four integers."""
    if type(value) is int and 0 <= value < _MOST:
        return value, value, value, value
    fix = "Use one, two or four integers of 0 or more"
    sizes = _integers(value, "padding", fix, 4)
    if len(sizes) == 2:
        sizes *= 2
    if len(sizes) != 4 or min(sizes) < 0:
        raise OptionError(f"padding is {shown(value)}", fix)
    return sizes


class Window(NamedTuple):
    """A window that slides over height and width.

    Args:
        kernel, stride, dilation: (height, width).
        padding: (top, left, bottom, right).
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)

    def slide(self, height: int, width: int, ceil_mode: bool = False) -> Shape:
        """Return the window's positions over an image of `height` by `width`.

        Raises:
            ShapeError: the padded image is smaller than the window.
        """
        top, left, bottom, right = self.padding
        is_up = flag(ceil_mode, "ceil_mode")
        return (
            self._positions(height, top + bottom, 0, is_up),
            self._positions(width, left + right, 1, is_up),
        )

    def spread(self, height: int, width: int, more: tuple[int, int]) -> Shape:
        """Return the image on which this window has `height` by `width` positions.

        Raises:
            ShapeError: the result would be empty, or padding covers the whole image.
        """
        top, left, bottom, right = self.padding
        return (
            self._extent(height, top + bottom, 0, more[0]),
            self._extent(width, left + right, 1, more[1]),
        )

    def _extent(self, size: int, padding: int, axis: int, more: int) -> int:
        if DYNAMIC in (size, self.kernel[axis]):
            return DYNAMIC
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        reached = (size - 1) * self.stride[axis] + reach + more
        # Padding of a transposed convolution removes rows instead of adding them.
        if size < 1 or reached <= padding:
            raise ShapeError(
                f"the result would be empty: {size} positions cover "
                f"{max(reached, 0)}, and padding removes {padding}",
                "Use less padding, or a larger input",
            )
        return reached - padding

    def _positions(self, size: int, padding: int, axis: int, ceil_mode: bool) -> int:
        if DYNAMIC in (size, self.kernel[axis]):
            return DYNAMIC
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        room = size + padding - reach
        if room < 0:
            raise ShapeError(
                f"a window of {reach} does not fit into {size} with padding {padding}",
                "Use a smaller window or more padding",
            )
        stride = self.stride[axis]
        if not ceil_mode:
            return room // stride + 1
        # With ceil_mode, a last window that starts in the padding after the image is
        # dropped.
        last = -(-room // stride)
        starts_inside = last * stride < size + self.padding[axis]
        return last + 1 if starts_inside else last


def conv_shape(
    x: Shape, w: Shape, b: Shape | None, window: Window, groups: int
) -> Shape:
    """Return [n, out, oh, ow] for [n, c, h, w] and [out, c / groups, kh, kw].

    Raises:
        ShapeError: ranks, channels, groups or the window do not fit.
    """
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(
            f"image has {len(x)} axes and weights {len(w)}",
            "Use [n, c, h, w] and [out, c / groups, kh, kw]",
        )
    # A sum over an empty window would be 0 at every position, surely a mistake.
    if 0 in w[2:]:
        raise ShapeError(
            f"the weights have shape {w}, a window without elements",
            "Give kernels of at least 1 by 1",
        )
    if not _splits(w[0], groups):
        problem = f"{w[0]} output channels do not split into {shown(groups)} groups"
        raise ShapeError(problem, "Choose groups that divide the channels")
    if DYNAMIC not in (x[1], w[1]) and x[1] != w[1] * groups:
        raise ShapeError(
            f"the image has {x[1]} channels, but the weights take "
            f"{w[1]} x {groups} groups = {w[1] * groups}",
            f"Give an image of {w[1] * groups} channels, or other weights or groups",
        )
    check_bias(b, w[0])
    return (x[0], w[0], *window.slide(x[2], x[3]))


def _splits(channels: int, groups: Any) -> bool:
    """Return whether `channels` split into `groups` of equal size.

    Raises:
        OptionError: `groups` is not an integer.
    """
    if not is_size(groups):
        raise OptionError(f"groups is {shown(groups)}", "Use an integer of 1 or more")
    if groups < 1:
        return False
    # Unknown channels are checked when the operation runs.
    return bool(channels == DYNAMIC or channels % groups == 0)


def conv_window(w: Shape, stride: object, padding: object, dilation: object) -> Window:
    """Return the window of weights [out, in, kh, kw]."""
    return Window(
        # Weights of another rank raise in `conv_shape`, which knows the image as well.
        (w[2], w[3]) if len(w) == 4 else (1, 1),
        pair(stride, "stride", 1),
        padding4(padding),
        pair(dilation, "dilation", 1),
    )


def pool_window(kernel_size: object, stride: object, padding: object) -> Window:
    """Return the window of a pool; its stride is the kernel unless given.

    Raises:
        OptionError: padding is not below the kernel size, so a window could be empty.
    """
    kernel = pair(kernel_size, "kernel_size", 1)
    window = Window(
        kernel,
        kernel if stride is None else pair(stride, "stride", 1),
        padding4(padding),
    )
    # A window of only padding has neither a maximum nor a mean.
    if any(p >= k for p, k in zip(window.padding, kernel * 2, strict=True)):
        raise OptionError(
            f"padding {window.padding} is not below the kernel {kernel}",
            "Use less padding",
        )
    return window


def check_image(shape: Shape) -> None:
    """Raise unless the shape is [n, c, h, w]."""
    if len(shape) != 4:
        raise ShapeError(
            f"an image must have 4 axes, but has {len(shape)}",
            "Give the shape [n, c, h, w]",
        )


def single(value: object, name: str, least: int) -> int:
    """Return `value` along one axis.

    Raises:
        OptionError: not one integer, or below `least`.
    """
    fix = f"Use one integer of {least} or more"
    one = _integers(value, name, fix)
    if len(one) != 1 or one[0] < least:
        raise OptionError(f"{name} is {shown(value)}", fix)
    return one[0]


def padding2(value: object) -> tuple[int, int]:
    """Return (before, after) from one or two integers."""
    fix = "Use one or two integers of 0 or more"
    sizes = _integers(value, "padding", fix, 2)
    if len(sizes) == 1:
        sizes *= 2
    if len(sizes) != 2 or min(sizes) < 0:
        raise OptionError(f"padding is {shown(value)}", fix)
    return sizes[0], sizes[1]


def check_signal(shape: Shape) -> None:
    """Raise unless the shape is [n, c, l]."""
    if len(shape) != 3:
        raise ShapeError(
            f"a signal must have 3 axes, but has {len(shape)}",
            "Give the shape [n, c, l]",
        )


def flat_image(shape: Shape) -> Shape:
    """Return [n, c, l] as the shape of an image of height 1, [n, c, 1, l]."""
    return (*shape[:2], 1, *shape[2:])


def conv1d_window(
    w: Shape, stride: object, padding: object, dilation: object
) -> Window:
    """Return the window of weights [out, in, k], of height 1."""
    before, after = padding2(padding)
    return Window(
        (1, w[-1] if w else 1),
        (1, single(stride, "stride", 1)),
        (0, before, 0, after),
        (1, single(dilation, "dilation", 1)),
    )


def pool1d_window(kernel_size: object, stride: object, padding: object) -> Window:
    """Return the window of a pool over [n, c, l], of height 1."""
    kernel = single(kernel_size, "kernel_size", 1)
    step = kernel if stride is None else single(stride, "stride", 1)
    before, after = padding2(padding)
    # A window of only padding has neither a maximum nor a mean.
    if max(before, after) >= kernel:
        raise OptionError(
            f"padding {(before, after)} is not below the kernel {kernel}",
            "Use less padding",
        )
    return Window((1, kernel), (1, step), (0, before, 0, after))


def conv_transpose_shape(
    x: Shape, w: Shape, b: Shape | None, window: Window, more: object, groups: int
) -> Shape:
    """Return [n, out, oh, ow] for [n, c, h, w] and [c, out / groups, kh, kw].

    Raises:
        ShapeError: ranks, channels or groups do not fit, or the result would be empty.
        OptionError: along an axis, the output padding `more` is at least as large as
            the stride and the dilation.
    """
    if len(x) != 4 or len(w) != 4:
        raise ShapeError(
            f"image has {len(x)} axes and weights {len(w)}",
            "Use [n, c, h, w] and [c, out / groups, kh, kw]",
        )
    if 0 in w[2:]:
        raise ShapeError(
            f"the weights have shape {w}, a window without elements",
            "Give kernels of at least 1 by 1",
        )
    if not _splits(w[0], groups):
        raise ShapeError(
            f"{w[0]} input channels do not split into {shown(groups)} groups",
            "Choose groups that divide the channels",
        )
    if not are_like(x[1:2], w[:1]):
        raise ShapeError(
            f"the image has {x[1]} channels, but the weights take {w[0]}",
            f"Give an image of {w[0]} channels, or other weights",
        )
    channels = DYNAMIC if w[1] == DYNAMIC else w[1] * int(groups)
    check_bias(b, channels)
    output_padding = pair(more, "output_padding", 0)
    # A larger output padding would add rows that no input position reaches.
    steps = zip(window.stride, window.dilation, strict=True)
    if any(n >= max(step) for n, step in zip(output_padding, steps, strict=True)):
        raise OptionError(
            f"output_padding {output_padding} is not below the stride {window.stride} "
            f"or the dilation {window.dilation}",
            "Use a smaller output_padding",
        )
    return (x[0], channels, *window.spread(x[2], x[3], output_padding))
