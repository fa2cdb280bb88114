"""Products of codes on devices: exact integer sums, rounded once in the same kernel.

sum = Σ (x - zero of x) · (w - zero of w)      int32; int64 if it may overflow
out = rescale(sum + bias, scale of x · scale of w, scale of out)
"""

from math import prod
from typing import Any, Union

import numpy as np

from mdtensor import Device, conv2d, linear, matmul
from mdtensor.errors import checked
from mdtensor.extend import (
    bordered,
    contract,
    conv_window,
    count_true,
    filters,
    infer,
    launch,
    matrices,
    reshaped,
)
from mdtensor.kernels.loops import ir
from mdtensor.kernels.loops.ir import Value, apply, cast
from mdtensor.quant.grids import combine
from mdtensor.quant.qparams import QParams
from mdtensor.quant.rendered.rounding import Inputs
from mdtensor.quant.rendered.types import (
    SHORT,
    add,
    is_exact,
    no_method,
    types_on,
)
from mdtensor.quant.tensor import QInt32Tensor

#: The largest sum of 32 bits.
MOST = 2**31 - 1


def register(device: Device) -> None:
    """Add the methods of this file for a device."""
    codes: Any = Union[types_on(device, SHORT)]
    add(device, matmul, (codes, codes), _matmul)
    # Apart, since the union of both is not below the one that the host takes.
    for bias in (*types_on(device, (QInt32Tensor,)), type(None)):
        add(device, linear, (codes, codes, bias), _linear)
        add(device, conv2d, (codes, codes, bias), _conv2d)


def _matmul(x1: Any, x2: Any, /, *, out: QParams | None = None) -> Any:
    spec = infer(matmul, x1, x2, out=out)
    if not x2.qparams.is_along(None, max(x2.ndim - 1, 1)) or not is_exact(out):
        raise no_method("matmul", x1, x2)
    a, b = matrices(x1.buffer, x2.buffer)
    axis = max(len(a.shape), len(b.shape)) - 1
    # The columns of x2 are the last axis but the summed one.
    product = Product("matmul", (x1, x2), out, lambda values: values[:, None])
    return product(spec, a, b, None, (axis,))


def _linear(x: Any, w: Any, b: Any, /, *, out: QParams | None = None) -> Any:
    spec = infer(linear, x, w, b, out=out)
    _require_rows("linear", x, w, b, out)
    left = x.buffer.view(lambda array: array[..., None, :])
    bias = None if b is None else b.buffer.view(lambda array: array[:, None])
    product = Product("linear", (x, w, b), out, lambda values: values[:, None])
    return product(spec, left, w.buffer, bias, (x.ndim,))


def _conv2d(
    x: Any,
    w: Any,
    b: Any,
    /,
    *,
    groups: int,
    out: QParams | None = None,
    **options: Any,
) -> Any:
    spec = infer(conv2d, x, w, b, groups=groups, out=out, **options)
    _require_rows("conv2d", x, w, b, out)
    window = conv_window(w.shape, **options)
    border = np.array(x.qparams.zero_point.item(), x.buffer.dtype)
    image = bordered(x.device, x.buffer, window.padding, border)
    bias = None if b is None else b.buffer
    views = filters(image, w.buffer, bias, window, groups, spec.shape[2:])
    many = (groups, w.shape[0] // groups)
    product = Product(
        "conv2d", (x, w, b), out, lambda v: v.reshape(*many, 1, 1, 1, 1, 1)
    )
    return product(spec, *views, (5, 6, 7))


def _require_rows(name: str, x: Any, w: Any, b: Any, out: QParams | None) -> None:
    """Raise if scales of the weights differ inside a sum, or for another rule."""
    if not w.qparams.is_along(None, 0) or not is_exact(out):
        raise no_method(name, *(t for t in (x, w, b) if t is not None))


class Product:
    """A product of codes while its loop is written.

    Args:
        name: the operation.
        given: its operands, with None for no bias.
        out: the grid of the result; None for an exact one.
        place: returns an array with one value for each output channel so that it
            broadcasts with the views.
    """

    def __init__(self, name: str, given: tuple[Any, ...], out: Any, place: Any) -> None:
        self.name, self.out = name, out
        self.given = tuple(x for x in given if x is not None)
        self.place = place

    def __call__(
        self, spec: Any, a: Any, b: Any, bias: Any, axes: tuple[int, ...]
    ) -> Any:
        """Return the tensor of a spec: sums of products of two views, and a bias."""
        device = spec.type.device
        count = prod(b.shape[-len(axes) :])
        worst = count * self._reach(0) * self._reach(1)
        type = "int32" if worst <= MOST else "int64"
        inputs = Inputs(device)
        x, w = self.given[:2]
        left = inputs.steps(a, x.qparams.zero_point, type)
        right = inputs.steps(b, self._per_channel(w.qparams.zero_point), type)
        total = cast(ir.total(type), "float64")
        if bias is not None:
            total = apply("add", total, cast(inputs.element(bias), "float64"))
        finish = self._finish(inputs, total, spec)
        value = apply("mul", left, right)
        loop = inputs.loop(self.name, value, fold="dot", finish=finish, is_serial=True)
        found = contract(device, loop, inputs.buffers, axes)
        if self.out is None:
            self._require_fit(found, worst + (bias is not None) * (MOST + 1))
            found = self._narrow(found)
        return spec.type.wrap(reshaped(found, spec.shape), spec.qparams)

    def _reach(self, at: int) -> int:
        """Return the largest magnitude of a step of an operand."""
        grid = self.given[at].qparams
        below = grid.zero_point.max(initial=0) - grid.minimum
        return int(max(below, grid.maximum - grid.zero_point.min(initial=0)))

    def _per_channel(self, values: Any) -> Any:
        return values if values.size == 1 else self.place(values)

    def _finish(self, inputs: Inputs, total: Value, spec: Any) -> Value:
        """Return the codes of a sum, or the sum as 64 bits."""
        if self.out is None:
            return cast(total, "int64")
        x, w = self.given[:2]
        scale = float(x.qparams.scale) * w.qparams.scale
        rounded = inputs.rounded(total, self._per_channel(scale), self.out.scale)
        return inputs.codes(rounded, self.out, ())

    def _require_fit(self, sums: Any, worst: int) -> None:
        """Raise if a sum has more than 32 bits. Waits if that is possible."""
        if worst <= MOST:
            return
        device = self.given[0].device
        inputs = Inputs(device, self.name)
        outside = cast(inputs.element(sums), "int32", "outside")
        if not count_true(inputs, outside, device):
            return
        checked(self.name, self.given, lambda: combine.check_fits(device.to_host(sums)))

    def _narrow(self, sums: Any) -> Any:
        device = self.given[0].device
        inputs = Inputs(device)
        loop = inputs.loop("narrow", cast(inputs.element(sums), "int32"))
        return launch(device, loop, sums.shape, inputs.buffers)
