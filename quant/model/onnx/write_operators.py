"""Operations of a graph, written as operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

import mdtensor as md
from mdtensor import TensorSpec
from mdtensor.errors import ModelError, written
from mdtensor.extend import normalize_axes, padding4, pair
from mdtensor.graph import Node
from mdtensor.quant.model.onnx.build import ELEMENT_TYPES
from mdtensor.quant.model.onnx.operators import elementwise
from mdtensor.quant.model.onnx.operators.elementwise import CHAINS, WITH_ATTRIBUTE

# The table of emitters, and the interface of the writer that they call.


class Sink(Protocol):
    """The part of a writer that the functions below use."""

    specs: Mapping[str, TensorSpec]
    #: The constants of the graph.
    values: Mapping[str, Any]
    #: The version of the operator set of the file.
    opset: int

    def emit(
        self, kind: str, inputs: list[str], name: str = "", **attributes: Any
    ) -> str:
        """Add an operator for an intermediate value; return the name of its output."""

    def parts(
        self, kind: str, inputs: list[str], count: int, **attributes: Any
    ) -> list[str]:
        """Add an operator of several outputs; return their names."""

    def result(
        self, kind: str, inputs: list[str], name: str | None = None, **attributes: Any
    ) -> None:
        """Add the operator that writes the node's result, by default under its name."""

    def constant(self, values: Any) -> str:
        """Return the name of an initializer with these values."""


Emitter = Callable[[Sink, Node, list[str]], None]
EMITTERS: dict[Any, Emitter] = {}


def emits(*operations: Any) -> Callable[[Emitter], Emitter]:
    """Register a function as the emitter of `operations`."""

    def enter(emitter: Emitter) -> Emitter:
        EMITTERS.update(dict.fromkeys(operations, emitter))
        return emitter

    return enter


#: An index past the end of any axis.
FAR = 2**62

#: Operations with the same meaning as one operator of ONNX.
SAME: dict[Any, str] = {
    **{operation: kind for kind, operation in elementwise.SAME.items()},
    **{operation: kind for kind, operation in CHAINS.items() if operation != md.add},
    md.div: "Div",
    md.global_avg_pool2d: "GlobalAveragePool",
    md.pow: "Pow",
    md.selu: "Selu",
}
#: The operator set that an operator needs; all others exist in the oldest written.
SINCE: dict[Any, int] = {
    md.bitwise_and: 18,
    md.bitwise_invert: 18,
    md.bitwise_or: 18,
    md.bitwise_xor: 18,
    **dict.fromkeys([md.fft.fft, md.fft.ifft, md.fft.rfft, md.fft.irfft], 20),
    md.gelu: 20,
    md.group_norm: 21,
    md.grid_sample: 20,
    md.interpolate: 18,
    md.layer_norm: 17,
    md.mish: 18,
    md.rms_norm: 23,
    md.roi_align: 16,
    md.scatter: 18,
}


@emits(*SAME)
def same(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result(SAME[node.operation], inputs)


@emits(*(operation for operation, *_ in WITH_ATTRIBUTE.values()))
def with_attribute(sink: Sink, node: Node, inputs: list[str]) -> None:
    for kind, (operation, theirs, default, ours) in WITH_ATTRIBUTE.items():
        if operation is node.operation:
            given: dict[str, Any] = {theirs: float(node.options.get(ours, default))}
            sink.result(kind, inputs, **given)


@emits(md.prelu)
def prelu(sink: Sink, node: Node, inputs: list[str]) -> None:
    x, slope = inputs
    before, count = sink.specs[node.inputs[0]].ndim, sink.specs[node.inputs[1]].shape
    if before > 2 and count not in ((), (1,)):
        # The operator broadcasts from the last axis, and channels are axis 1.
        shape = sink.constant(np.array([*count, *[1] * (before - 2)], np.int64))
        slope = sink.emit("Reshape", [slope, shape])
    sink.result("PRelu", [x, slope])


@emits(md.gelu)
def gelu(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Gelu", inputs, approximate=node.options.get("approximate", "none"))


@emits(md.linear)
def linear(sink: Sink, node: Node, inputs: list[str]) -> None:
    after = sink.specs[node.output]
    # ONNX Runtime has no Gemm of integers.
    is_whole = after.qparams is None and after.dtype.is_integer
    if after.ndim == 2 and not is_whole:
        sink.result("Gemm", inputs, transB=1)
        return
    x, w, *bias = inputs
    product = [x, sink.emit("Transpose", [w], perm=(1, 0))]
    if bias:
        # The reader names a layer after its product, so the product gets the name.
        value = sink.emit("MatMul", product, name=node.name)
        sink.result("Add", [value, *bias], name="")
    else:
        sink.result("MatMul", product)


@emits(md.clip)
def clip(sink: Sink, node: Node, inputs: list[str]) -> None:
    _clip(sink, node, inputs, node.options.get("min"), node.options.get("max"))


@emits(md.relu6)
def relu6(sink: Sink, node: Node, inputs: list[str]) -> None:
    _clip(sink, node, inputs, 0, 6)


def _clip(sink: Sink, node: Node, inputs: list[str], low: Any, high: Any) -> None:
    """Write Clip; a bound of None is omitted."""
    storage = real_storage(sink.specs[node.inputs[0]])
    bounds = ["" if v is None else sink.constant(storage.type(v)) for v in (low, high)]
    sink.result("Clip", [*inputs, *bounds])


def real_storage(spec: TensorSpec) -> Any:
    """Return the NumPy dtype of the numbers that a value stands for."""
    return np.dtype(np.float32) if spec.qparams else spec.dtype.storage


@emits(md.hardsigmoid)
def hardsigmoid(sink: Sink, node: Node, inputs: list[str]) -> None:
    alpha = float(node.options.get("alpha", 1 / 6))
    sink.result(
        "HardSigmoid", inputs, alpha=alpha, beta=float(node.options.get("beta", 0.5))
    )


@emits(md.softmax, md.log_softmax)
def softmax(sink: Sink, node: Node, inputs: list[str]) -> None:
    kind = "Softmax" if node.operation is md.softmax else "LogSoftmax"
    sink.result(kind, inputs, axis=node.options.get("axis", -1))


#: Reductions, with the operator set that made the axes an input.
REDUCED: dict[Any, tuple[str, int]] = {
    md.max: ("ReduceMax", 18),
    md.mean: ("ReduceMean", 18),
    md.min: ("ReduceMin", 18),
    md.prod: ("ReduceProd", 18),
    md.sum: ("ReduceSum", 13),
}


@emits(*REDUCED)
def reduction(sink: Sink, node: Node, inputs: list[str]) -> None:
    kind, since = REDUCED[node.operation]
    axes = normalize_axes(node.options.get("axis"), sink.specs[node.inputs[0]].ndim)
    keepdims = int(node.options.get("keepdims", False))
    # ONNX reads an empty list of axes as all axes; here it is none of them.
    if not axes:
        sink.result("Identity", inputs)
    elif sink.opset < since:
        sink.result(kind, inputs, axes=axes, keepdims=keepdims)
    else:
        over = sink.constant(np.array(axes, np.int64))
        sink.result(kind, [*inputs, over], keepdims=keepdims)


@emits(md.square)
def square(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Mul", inputs * 2)


@emits(md.not_equal)
def not_equal(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Not", [sink.emit("Equal", inputs)])


@emits(md.cumulative_sum)
def cumulative_sum(sink: Sink, node: Node, inputs: list[str]) -> None:
    before, after = sink.specs[node.inputs[0]], sink.specs[node.output]
    (axis,) = normalize_axes(node.options.get("axis") or 0, before.ndim)
    if after.dtype is not before.dtype:
        inputs = [sink.emit("Cast", inputs, to=element_code(after.dtype))]
    given = [*inputs, sink.constant(np.array(axis, np.int64))]
    if not node.options.get("include_initial"):
        sink.result("CumSum", given)
        return
    widths = np.zeros(2 * before.ndim, np.int64)
    widths[axis] = 1
    zero = sink.constant(real_storage(after).type(0))
    found = sink.emit("CumSum", given)
    sink.result("Pad", [found, sink.constant(widths), zero])


@emits(md.argmax, md.argmin)
def arg_extreme(sink: Sink, node: Node, inputs: list[str]) -> None:
    kind = "ArgMax" if node.operation is md.argmax else "ArgMin"
    axis, keepdims = node.options.get("axis"), bool(node.options.get("keepdims"))
    if axis is None:
        flat = sink.constant(np.array([-1], np.int64))
        inputs = [sink.emit("Reshape", [x, flat]) for x in inputs]
        keepdims = False
    sink.result(kind, inputs, axis=axis or 0, keepdims=int(keepdims))


@emits(md.tril, md.triu)
def triangle(sink: Sink, node: Node, inputs: list[str]) -> None:
    k = sink.constant(np.array(node.options.get("k", 0), np.int64))
    sink.result("Trilu", [*inputs, k], upper=int(node.operation is md.triu))


@emits(md.batch_norm)
def batch_norm(sink: Sink, node: Node, inputs: list[str]) -> None:
    x, mean, var, weight, bias = inputs
    eps = float(node.options.get("eps", 1e-5))
    sink.result("BatchNormalization", [x, weight, bias, mean, var], epsilon=eps)


@emits(md.layer_norm)
def layer_norm(sink: Sink, node: Node, inputs: list[str]) -> None:
    shape = node.options["normalized_shape"]
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    normalize(sink, node, inputs, "LayerNormalization", sizes, axis=-len(sizes))


@emits(md.instance_norm)
def instance_norm(sink: Sink, node: Node, inputs: list[str]) -> None:
    sizes = (sink.specs[node.inputs[0]].shape[1],)
    normalize(sink, node, inputs, "InstanceNormalization", sizes)


@emits(md.group_norm)
def group_norm(sink: Sink, node: Node, inputs: list[str]) -> None:
    sizes = (sink.specs[node.inputs[0]].shape[1],)
    groups = node.options["num_groups"]
    normalize(sink, node, inputs, "GroupNormalization", sizes, num_groups=groups)


def normalize(
    sink: Sink,
    node: Node,
    inputs: list[str],
    kind: str,
    sizes: tuple[int, ...],
    neutral: tuple[int, ...] = (1, 0),
    eps: float | None = None,
    **attributes: Any,
) -> None:
    """Write a normalization with weights and biases, by default `neutral`."""
    given, storage = iter(inputs), real_storage(sink.specs[node.inputs[0]])
    parts = [next(given)]
    for number, value in zip(neutral, (*node.inputs[1:], None, None), strict=False):
        absent = None if value is not None else np.full(sizes, number, storage)
        parts.append(next(given) if absent is None else sink.constant(absent))
    least = float(node.options.get("eps", 1e-5)) if eps is None else eps
    sink.result(kind, parts, epsilon=least, **attributes)


@emits(md.reshape)
def reshape(sink: Sink, node: Node, inputs: list[str]) -> None:
    shape = np.array(node.options["shape"], np.int64)
    # In the file 0 means "keep the size", unless allowzero is set.
    zero: dict[str, Any] = {"allowzero": 1} if (shape == 0).any() else {}
    sink.result("Reshape", [*inputs, sink.constant(shape)], **zero)


@emits(md.broadcast_to)
def broadcast_to(sink: Sink, node: Node, inputs: list[str]) -> None:
    shape = np.array(sink.specs[node.output].shape, np.int64)
    sink.result("Expand", [*inputs, sink.constant(shape)])


@emits(md.tile)
def tile(sink: Sink, node: Node, inputs: list[str]) -> None:
    counts, ndim = np.atleast_1d(node.inputs[1]), sink.specs[node.inputs[0]].ndim
    # Tile takes a count for each axis; axes that come first are 1 where one is missing.
    for _ in range(len(counts) - ndim):
        first = sink.constant(np.array([0], np.int64))
        inputs = [sink.emit("Unsqueeze", [*inputs, first])]
    counts = np.concatenate([np.ones(max(ndim - len(counts), 0), int), counts])
    sink.result("Tile", [*inputs, sink.constant(counts.astype(np.int64))])


@emits(md.permute_dims)
def permute_dims(sink: Sink, node: Node, inputs: list[str]) -> None:
    axes = tuple(node.options["axes"])
    if axes:
        sink.result("Transpose", inputs, perm=axes)
    else:
        # Transpose of a scalar needs an empty list, and ONNX cannot type one.
        sink.result("Identity", inputs)


@emits(md.concat)
def concat(sink: Sink, node: Node, inputs: list[str]) -> None:
    axis = node.options.get("axis", 0)
    if axis is None:
        flat = sink.constant(np.array([-1], np.int64))
        inputs, axis = [sink.emit("Reshape", [x, flat]) for x in inputs], 0
    sink.result("Concat", inputs, axis=axis)


@emits(md.pad)
def pad(sink: Sink, node: Node, inputs: list[str]) -> None:
    widths = np.array(node.options["pad_width"], np.int64).T.reshape(-1)
    storage = real_storage(sink.specs[node.inputs[0]])
    value = sink.constant(storage.type(node.options.get("value", 0)))
    sink.result("Pad", [*inputs, sink.constant(widths), value])


@emits(md.squeeze)
def squeeze(sink: Sink, node: Node, inputs: list[str]) -> None:
    axes = normalize_axes(node.options["axis"], sink.specs[node.inputs[0]].ndim)
    sink.result("Squeeze", [*inputs, sink.constant(np.array(axes, np.int64))])


@emits(md.expand_dims)
def expand_dims(sink: Sink, node: Node, inputs: list[str]) -> None:
    axis = np.array([node.options.get("axis", 0)], np.int64)
    sink.result("Unsqueeze", [*inputs, sink.constant(axis)])


@emits(md.getitem)
def getitem(sink: Sink, node: Node, inputs: list[str]) -> None:
    """Write slices as Slice, and integers as slices of size 1 that Squeeze removes."""
    key = node.options["key"]
    keys = list(key) if isinstance(key, tuple) else [key]
    if not all(isinstance(k, slice | int) for k in keys):
        _gather(sink, node, inputs, keys)
        return
    if not keys:
        sink.result("Identity", inputs)
        return
    shape = sink.specs[node.inputs[0]].shape
    cuts = [_slice_bounds(node, k, size) for k, size in zip(keys, shape, strict=False)]
    starts, ends, steps = (np.array(c, np.int64) for c in zip(*cuts, strict=True))
    axes = np.arange(len(keys), dtype=np.int64)
    given = [*inputs, *(sink.constant(a) for a in (starts, ends, axes, steps))]
    single = [axis for axis, k in enumerate(keys) if isinstance(k, int)]
    if single:
        part = sink.emit("Slice", given)
        gone = sink.constant(np.array(single, np.int64))
        sink.result("Squeeze", [part, gone])
    else:
        sink.result("Slice", given)


def _gather(sink: Sink, node: Node, inputs: list[str], keys: list[Any]) -> None:
    """Write one tensor of indices as Gather, and several leading ones as GatherND."""
    are_full = [isinstance(k, slice) and k == slice(None) for k in keys]
    picked = [axis for axis, is_full in enumerate(are_full) if not is_full]
    indices = [np.asarray(keys[axis]) for axis in picked]
    is_plain = all(k.dtype.kind in "iu" for k in indices)
    if is_plain and len(picked) == 1:
        at = sink.constant(indices[0].astype(np.int64))
        sink.result("Gather", [*inputs, at], axis=picked[0])
    elif is_plain and picked == list(range(len(picked))):
        joined = np.stack(np.broadcast_arrays(*indices), axis=-1).astype(np.int64)
        sink.result("GatherND", [*inputs, sink.constant(joined)])
    else:
        raise ModelError(
            f"node {node.name!r} indexes with more than integers, slices and tensors "
            "of integers for the first axes",
            "Use expand_dims, and slices for each axis",
        )


def _slice_bounds(node: Node, key: Any, size: int) -> tuple[int, int, int]:
    """Return (start, end, step) in the file.

    An end far outside of any axis stands for None.
    """
    if isinstance(key, int):
        key = slice(key, key + 1 or None)
    step = 1 if key.step is None else int(key.step)
    first, last = (0, FAR) if step > 0 else (FAR, -FAR)
    # An empty slice is written as 0:0, because clamping differs for its bounds.
    if size >= 0 and not range(*key.indices(size)):
        return 0, 0, 1
    start = first if key.start is None else int(key.start)
    if size < 0 and step < 0 and start < 0:
        raise ModelError(
            f"node {node.name!r} counts from the end of an axis of dynamic size",
            f"Load the model with {written('input_shapes')}",
        )
    return start, (last if key.stop is None else int(key.stop)), step


@emits(md.astype)
def astype(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Cast", inputs, to=element_code(node.inputs[1]))


def element_code(dtype: Any) -> int:
    """Return the number of an element type in the file format.

    Raises:
        ModelError: the file format does not have the type.
    """
    for code, known in ELEMENT_TYPES.items():
        if known is dtype:
            return code
    raise ModelError(f"{dtype} does not have a counterpart in the file format")


# Operations with windows.


@emits(md.conv2d)
def conv2d(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("Conv", inputs, **convolution(sink, node))


@emits(md.conv1d)
def conv1d(sink: Sink, node: Node, inputs: list[str]) -> None:
    sizes = {name: _single(node, name) for name in ("stride", "dilation")}
    sink.result(
        "Conv",
        inputs,
        kernel_shape=sink.specs[node.inputs[1]].shape[2:],
        strides=sizes["stride"],
        dilations=sizes["dilation"],
        pads=_padding2(node),
        group=node.options.get("groups", 1),
    )


@emits(md.max_pool1d, md.avg_pool1d)
def pool1d(sink: Sink, node: Node, inputs: list[str]) -> None:
    kernel = _single(node, "kernel_size")
    stride = node.options.get("stride")
    if node.options.get("ceil_mode"):
        raise ModelError(
            f"node {node.name!r} has ceil_mode, which files of 1-D pools lack",
            "Use max_pool2d or avg_pool2d on a tensor of height 1",
        )
    window: dict[str, Any] = {"kernel_shape": kernel, "pads": _padding2(node)}
    window["strides"] = kernel if stride is None else _single(node, "stride")
    if node.operation is md.max_pool1d:
        sink.result("MaxPool", inputs, **window)
        return
    included = int(node.options.get("count_include_pad", True))
    sink.result("AveragePool", inputs, **window, count_include_pad=included)


def _single(node: Node, name: str) -> tuple[int]:
    """Return an option of a 1-D window, a number or one in a sequence."""
    return (int(np.ravel(node.options.get(name, 1))[0]),)


def _padding2(node: Node) -> tuple[int, int]:
    """Return the padding before and after the only axis of a window."""
    found = np.ravel(node.options.get("padding", 0))
    return int(found[0]), int(found[-1])


@emits(md.conv_transpose2d)
def conv_transpose2d(sink: Sink, node: Node, inputs: list[str]) -> None:
    grown = pair(node.options.get("output_padding", 0), "output_padding", 0)
    window = convolution(sink, node)
    sink.result("ConvTranspose", inputs, output_padding=grown, **window)


def convolution(sink: Sink, node: Node) -> dict[str, Any]:
    """Return the attributes of a convolution."""
    return {
        "kernel_shape": sink.specs[node.inputs[1]].shape[2:],
        "strides": pair(node.options.get("stride", 1), "stride", 1),
        "pads": padding4(node.options.get("padding", 0)),
        "dilations": pair(node.options.get("dilation", 1), "dilation", 1),
        "group": node.options.get("groups", 1),
    }


@emits(md.pixel_shuffle)
def pixel_shuffle(sink: Sink, node: Node, inputs: list[str]) -> None:
    blocks = node.options["upscale_factor"]
    sink.result("DepthToSpace", inputs, blocksize=blocks, mode="CRD")


@emits(md.max_pool2d)
def max_pool(sink: Sink, node: Node, inputs: list[str]) -> None:
    sink.result("MaxPool", inputs, **_window(sink, node, included=False))


@emits(md.avg_pool2d)
def avg_pool(sink: Sink, node: Node, inputs: list[str]) -> None:
    included = bool(node.options.get("count_include_pad", True))
    window = _window(sink, node, included)
    sink.result("AveragePool", inputs, **window, count_include_pad=int(included))


def _window(sink: Sink, node: Node, included: bool) -> dict[str, Any]:
    """Return the attributes of a pool; `included` if the mean counts the padding."""
    kernel = pair(node.options["kernel_size"], "kernel_size", 1)
    stride = node.options.get("stride")
    strides = kernel if stride is None else pair(stride, "stride", 1)
    pads = padding4(node.options.get("padding", 0))
    ceil_mode = int(node.options.get("ceil_mode", False))
    # A larger padding does the same as ceil_mode if the mean does not count it.
    if ceil_mode and min(sink.specs[node.inputs[0]].shape[2:]) >= 0:
        reached = _ceil_mode_padding(sink, node, kernel, strides, pads)
        if reached == pads or not included:
            pads, ceil_mode = reached, 0
    return {
        "kernel_shape": kernel,
        "strides": strides,
        "pads": pads,
        "ceil_mode": ceil_mode,
    }


def _ceil_mode_padding(
    sink: Sink,
    node: Node,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    pads: tuple[int, int, int, int],
) -> tuple[int, int, int, int]:
    """Return the padding with which ceil_mode=0 gives the windows of ceil_mode=1.

    ONNX specifies ceil_mode inconsistently for windows that begin past the image.
    """
    sizes = sink.specs[node.inputs[0]].shape[2:]
    counts = sink.specs[node.output].shape[2:]
    after = [
        max(p, (c - 1) * s + k - n - before)
        for n, c, k, s, before, p in zip(
            sizes, counts, kernel, strides, pads[:2], pads[2:], strict=True
        )
    ]
    return (*pads[:2], after[0], after[1])
