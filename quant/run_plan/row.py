"""One step of a stored plan, and what its kernel may read and write.

A rule (see `rules_of_codes.py`) states for a kind of step how many bytes its kernel
reads and writes, from the sizes in the row. Nothing in a row is trusted: numbers become
Python integers, which do not overflow, and every place is compared with the buffers.
"""

from collections.abc import Iterable
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor_run.fields import MOST
from mdtensor_run.packing import Packing

#: Kernels read whole vectors: so many bytes behind each input and constant exist.
SLACK, ALIGN, ITEM = 64, 64, 4
#: The longest reach of a window, and the most padding on a side, in pixels.
MOST_REACH = 1 << 12
CODES = 256


class Refused(Exception):
    """A row that a kernel must not run."""


class Row:
    """The fields of a record as Python numbers, by name, and its buffers.

    Args:
        values: the fields by name.
        constants: the constants of all steps; integers that steer a kernel are read
            here.
        packing: the sizes of the ISA.

    Attributes:
        needs: the bytes that the kernel may touch, by buffer, as far as they are known.
    """

    kind: int
    window: Any

    def __init__(
        self, values: dict[str, Any], constants: npt.NDArray[np.uint8], packing: Packing
    ) -> None:
        self.fields = SimpleNamespace(**values)
        self.packing, self._constants = packing, constants
        #: Whether it is a piece of a step, which need not read all of its input.
        self.is_piece = False
        self.needs = {"x": 0, "y": 0, "out": 0, "scratch": 0, "constants": 0}

    def require(self, is_true: bool, problem: str) -> None:
        """Raise Refused with this problem unless the condition holds."""
        if not is_true:
            raise Refused(problem)

    def ints(self, *names: str, least: int = 1, most: int = MOST) -> list[int]:
        """Return fields that must be in least .. most."""
        found = [getattr(self.fields, name) for name in names]
        # Not `require`, which would build the text of an error for each field.
        for name, value in zip(names, found, strict=True):
            if not least <= value <= most:
                raise Refused(f"has {name} {value}")
        return found

    def codes(self, *names: str) -> None:
        """Require fields to be codes of uint8."""
        self.ints(*names, least=0, most=CODES - 1)

    # Buffers.

    def _need(self, buffer: str, size: int, room: int) -> None:
        self.needs[buffer] = max(self.needs[buffer], size)
        if not 0 <= size <= room:
            raise Refused(f"needs {size} bytes of {buffer}, has {room}")

    def reads_x(self, size: int) -> None:
        """Require `size` bytes of the first input."""
        self._need("x", size, self.fields.x_bytes)

    def reads_y(self, size: int) -> None:
        """Require `size` bytes of the last input."""
        self._need("y", size, self.fields.y_bytes)

    def holds_numbers(self, *names: str) -> None:
        """Require buffers of numbers to begin at a multiple of their size.

        Pieces of steps on codes may begin anywhere, and kernels load vectors of codes
        from any address.
        """
        for name in names:
            place = getattr(self.fields, name)
            self.require(place % ITEM == 0, f"has numbers at {place}")

    def writes(self, size: int) -> None:
        """Require a result of exactly `size` bytes: kernels go by its length."""
        self._need("out", size, self.fields.out_bytes)
        self.require(
            size == self.fields.out_bytes,
            f"writes {size} bytes of {self.fields.out_bytes}",
        )

    def uses_scratch(self, size: int) -> None:
        """Require `size` bytes of scratch, and as many as a vector behind them."""
        self._need("scratch", size + SLACK, self.fields.scratch_bytes)

    def reads_constants(self, at: int, size: int) -> None:
        """Require `size` bytes of the constants at a place."""
        self.require(at >= 0 and at % ALIGN == 0, f"has constants at {at}")
        self._need("constants", at + size + SLACK, self.fields.constants_bytes)

    # A write gives this process pages of its own (decision 0064).
    def numbers(self, at: int, rows: int, columns: int) -> npt.NDArray[np.int64]:
        """Return int64 [rows, columns] of the constants, which steer a kernel.

        The bytes become private: who changes the file later does not change them.
        """
        self.reads_constants(at, 8 * rows * columns)
        first = self.fields.constants + at
        part = self._constants[first : first + 8 * rows * columns]
        part[:] = part.copy()
        return part.view(np.int64).reshape(rows, columns).copy()

    # Parts that several kinds share.

    def rounds(self) -> None:
        """Require the fields that rounding to codes reads."""
        self.codes("zero_point", "lo", "hi")

    def multipliers(self, count: int, limbs: int = 64) -> None:
        """Require multipliers and limbs of `count` ratios."""
        self.reads_constants(self.fields.multipliers, ITEM * count)
        self.reads_constants(self.fields.limbs, limbs * count)

    def image(self) -> tuple[Any, int, int]:
        """Return (window, elements of all inputs, pixels of all results).

        Kernels make copies of padded lines, whose sizes must not overflow.
        """
        w = self.fields.window
        sizes = [w.height, w.width, w.channels, w.kernel_h, w.kernel_w, w.stride_h]
        sizes += w.stride_w, w.dilation_h, w.dilation_w, w.out_h, w.out_w
        self.require(all(1 <= n <= MOST for n in sizes), "has a size below 1")
        self._axis(
            *(w.height, w.kernel_h, w.stride_h, w.dilation_h, w.pad_top, w.out_h),
            leaves_some=self.is_piece,
        )
        # A piece of an image leaves rows over, but no columns.
        self._axis(
            *(w.width, w.kernel_w, w.stride_w, w.dilation_w, w.pad_left, w.out_w),
            leaves_some=False,
        )
        (images,) = self.ints("images")
        elements = images * w.height * w.width * w.channels
        self.require(elements <= MOST, "has an image that is too large")
        return w, elements, images * w.out_h * w.out_w

    def _axis(self, *sizes: int, leaves_some: bool) -> None:
        """Require windows that cover an axis of an image, and not much more.

        Args:
            sizes: of the image, taps, stride, dilation, padding before, outputs.
            leaves_some: whether they need not cover it.
        """
        size, taps, stride, dilation, before, outputs = sizes
        reach = (taps - 1) * dilation + 1
        read = (outputs - 1) * stride + reach
        self.require(reach <= MOST_REACH, f"has a window of {reach} pixels")
        self.require(0 <= before <= MOST_REACH, f"has {before} pixels of padding")
        least = 0 if leaves_some else size + before - stride + 1
        most = size + before + MOST_REACH
        self.require(least <= read <= most, f"has windows over {read} pixels")

    def is_pixelwise(self) -> bool:
        """Return whether each result reads the pixel at its own place."""
        w = self.fields.window
        steps = (w.kernel_h, w.kernel_w, w.stride_h, w.stride_w)
        is_whole = (w.out_h, w.out_w) == (w.height, w.width)
        return steps == (1, 1, 1, 1) and is_whole and w.pad_top == w.pad_left == 0

    def groups(self) -> tuple[int, int, int]:
        """Return (groups, columns of a group, products of a sum) of a convolution."""
        groups, n, padded = self.ints("groups", "columns", "padded_columns")
        w = self.fields.window
        self.require(w.channels % groups == 0, f"has {w.channels} channels")
        (channels,) = self.ints("out_channels")
        self.require(channels == groups * n, f"has {channels} outputs")
        self.require(padded == -(-n // 16) * 16, f"has {padded} padded columns")
        return groups, n, w.kernel_h * w.kernel_w * (w.channels // groups)

    def places(self, item: int) -> None:
        """Require places of matrices, in elements, at the start of the constants.

        Args: item: the bytes of an element.
        """
        rows, depth, columns, images = self.ints("rows", "depth", "columns", "images")
        found = self.numbers(0, images, 2)
        self.require(bool(found.min() >= 0), "has a matrix before its input")
        first, second = map(int, found.max(axis=0))
        self.reads_x(item * (first + rows * depth))
        self.reads_y(item * (second + depth * columns))


def product(numbers: Iterable[int]) -> int:
    """Return the product of Python integers, at most MOST.

    Raises:
        Refused: it is larger.
    """
    found = prod(numbers)
    if found > MOST:
        raise Refused(f"has {found} elements")
    return found
