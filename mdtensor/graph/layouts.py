"""Order of values of four axes inside a compiled part: channels last, or rows.

Convolutions and pools read images channels last. Products of matrices and softmax read
rows, so values of four axes in attention stay row-major. Every value has one order; a
step that needs the other one reads a copy. Floats come into a part, and leave it, in
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from mdtensor.device import cpu
from mdtensor.generics.activation import log_softmax, softmax
from mdtensor.generics.arithmetic import add, div, maximum, minimum, mul, sub
from mdtensor.generics.comparison import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
)
from mdtensor.generics.conv import conv2d, conv_transpose2d
from mdtensor.generics.dynamic_quantization import dynamic_matmul
from mdtensor.generics.indexing import getitem, take
from mdtensor.generics.linalg import matrix_transpose
from mdtensor.generics.manipulation import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    pad,
    permute_dims,
    reshape,
    roll,
    squeeze,
    tile,
)
from mdtensor.generics.matmul import linear, matmul
from mdtensor.generics.normalization import layer_norm, rms_norm
from mdtensor.generics.pool import avg_pool2d, max_pool2d
from mdtensor.generics.reduction import max, mean, min, sum
from mdtensor.generics.sorting import where
from mdtensor.graph.graph import Graph, Node
from mdtensor.graph.storage import (
    Storage,
    channels_first,
    channels_last,
    storage_of,
)
from mdtensor.kernels.cpu.program.floats import Elementwise, Transpose
from mdtensor.kernels.cpu.program.steps import (
    F32,
    U8,
    Add,
    Dequantize,
    Extreme,
    Lookup,
    Move,
    Mul,
    Quantize,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, leaves
from mdtensor.types import Float32Tensor

#: The types of this package on the host.
_PLAIN = frozenset(
    kind
    for kind in leaves()
    if kind.device is cpu and kind.__module__ == Float32Tensor.__module__
)
#: Operations that read and write rows.
ROW_OPERATIONS = (
    *(matmul, softmax, log_softmax, linear, layer_norm, rms_norm, dynamic_matmul),
    *(sum, mean, max, min),
)
#: Operations that only look at codes in another way; input and output may differ in
#: their order.
VIEWS = (
    *(reshape, squeeze, expand_dims, permute_dims, matrix_transpose),
    *(moveaxis, broadcast_to, flip, getitem),
)
#: Views that leave the bytes of row-major codes as they are.
RESHAPES = (reshape, squeeze, expand_dims)
#: Operations on two codes, in a step of two values of one shape.
COMMUTATIVE = (add, mul, maximum, minimum)
#: Steps that compute each element from the elements at the same place.
ELEMENTWISE = (Lookup, Add, Extreme, Mul, Quantize, Dequantize, Elementwise)


def is_codes(spec: Any) -> bool:
    """Return whether `spec` describes codes that a compiled part can hold."""
    return bool(_dtype(spec) == U8)


def is_float(spec: Any) -> bool:
    """Return whether a compiled part holds values of `spec` as floats.

    Bools are 1 and 0.
    """
    return bool(_dtype(spec) == F32)


def is_plain(spec: TensorSpec) -> bool:
    """Return whether a tensor is its buffer on the host, and nothing else.

    A type of an extension may hold more.
    """
    return spec.type in _PLAIN


def _dtype(spec: Any) -> Any:
    found = storage_of(spec.type) if isinstance(spec, TensorSpec) else None
    return found and found.dtype


def storage(spec: TensorSpec) -> Storage:
    """Return how compiled parts store a value that they can hold."""
    found = storage_of(spec.type)
    assert found is not None, spec
    return found


def has_two_orders(spec: Any) -> bool:
    """Return whether a compiled part stores a value channels last, or in rows."""
    return _dtype(spec) is not None and spec.ndim == 4


def slot_shape(spec: TensorSpec, in_rows: bool = False) -> tuple[int, ...]:
    """Return the shape of a value in a compiled part; images are channels last."""
    if spec.ndim != 4 or in_rows:
        return spec.shape
    n, c, h, w = spec.shape
    return n, h, w, c


def is_orderless(spec: TensorSpec) -> bool:
    """Return whether channels first and channels last give the same bytes."""
    return spec.ndim != 4 or spec.shape[2:] == (1, 1) or spec.shape[1] == 1


# Values that elementwise operations connect share one order, so that no copy is needed
# between them (decision 0052).
def row_values(graph: Graph, specs: Mapping[str, TensorSpec]) -> frozenset[str]:
    """Return the values of four axes that are stored in rows.

    These are values that products of matrices, softmax or views read or write, unless
    another operation, such as a convolution, reads or writes them as images; and floats
    that only elementwise operations read or write.
    """
    group = {
        name: [name]
        for name, spec in specs.items()
        if has_two_orders(spec) and name not in graph.constants
    }
    in_rows: set[str] = set()
    in_images: set[str] = set()
    for node in graph.nodes:
        names = [name for name in (*node.values, node.output) if name in group]
        if node.operation in (*ROW_OPERATIONS, *VIEWS):
            in_rows.update(names)
        elif is_elementwise(node, specs) or is_spread(node, graph, specs):
            for name in names[1:]:
                _join(group, names[0], name)
        else:
            in_images.update(names)
    members = {id(each): each for each in group.values()}.values()
    found: list[str] = []
    for each in members:
        has_codes = any(is_codes(specs[name]) for name in each)
        if not in_images & set(each) and (in_rows & set(each) or not has_codes):
            found += each
    return frozenset(found)


def _join(group: dict[str, list[str]], a: str, b: str) -> None:
    """Join the groups of two values: all members point to the list that stays."""
    if group[a] is not group[b]:
        group[a].extend(group[b])
        group |= dict.fromkeys(group[b], group[a])


#: Operations that broadcast floats in a compiled part.
BROADCASTING = (
    *(add, sub, mul, div, maximum, minimum, where),
    *(equal, not_equal, less, less_equal, greater, greater_equal),
    *(logical_and, logical_or, logical_xor),
)
#: Operations on images whose result may have the shape of their argument.
IMAGES = (
    *(conv2d, conv_transpose2d, max_pool2d, avg_pool2d, concat),
    *(take, roll, pad, tile),
)


def is_elementwise(node: Node, specs: Mapping[str, TensorSpec]) -> bool:
    """Return whether a node computes elements from elements at the same place.

    Floats may be broadcast. It is a guess: `lower` looks at the step that the node
    becomes.
    """
    values = (*node.values, node.output)
    are_floats = all(is_float(specs[name]) for name in values)
    if node.operation in BROADCASTING and are_floats:
        return True
    wide = {specs[name].shape for name in values if prod(specs[name].shape) != 1}
    return len(wide) <= 1 and node.operation not in IMAGES


# A copy of a mask costs less than a call between compiled parts (decision 0056).
def is_spread(node: Node, graph: Graph, specs: Mapping[str, TensorSpec]) -> bool:
    """Return whether a node of two codes has one that is broadcast, or is constant.

    A constant number is not broadcast, nor are factors for each channel of an image.
    """
    if node.operation not in (*COMMUTATIVE, sub) or len(node.values) != 2:
        return False
    first, second = (specs[name] for name in node.values)
    if not (is_codes(first) and is_codes(second)):
        return False
    constants = [name for name in node.values if name in graph.constants]
    if any(prod(specs[name].shape) == 1 for name in constants):
        return False
    if constants:
        return True
    shapes = {first.shape, second.shape}
    whole = specs[node.output].shape
    has_factors = node.operation is mul and shapes == {whole, (*whole[:2], 1, 1)}
    return len(shapes) > 1 and not (has_factors and len(whole) == 4)


def spread(shape: tuple[int, ...], is_image: bool) -> Move:
    """Return the step that broadcasts codes to `shape`, channels last for an image."""

    def look(codes: Any) -> Any:
        missing = len(shape) - codes.ndim
        if missing:
            # Only values of four axes are stored channels last.
            codes = codes.reshape((1,) * missing + codes.shape)
            codes = channels_last(codes) if is_image else codes
        return np.broadcast_to(codes, shape)

    return Move(look)


def flattened(given: Any) -> Any:
    """Return a spec of four axes with the first two as one; a number without axes.

    Floats get an axis in front instead, so that their constants broadcast. Other
    arguments stay as they are.
    """
    if isinstance(given, TensorSpec):
        return given.with_shape(flat_shape(given.shape, _dtype(given)))
    is_number = isinstance(given, Tensor) and given.ndim == 4 and given.size == 1
    return reshape(given, ()) if is_number else given


def flat_shape(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return a shape of four axes as another number of axes, any other as it is."""
    if len(shape) != 4:
        return shape
    return (1, *shape) if dtype == F32 else (shape[0] * shape[1], *shape[2:])


def to_rows(dtype: np.dtype[Any]) -> Move | Transpose:
    """Return the step from channels last to rows."""
    return Transpose(False) if dtype == F32 else Move(channels_first)


def to_images(dtype: np.dtype[Any]) -> Move | Transpose:
    """Return the step from rows to channels last."""
    return Transpose(True) if dtype == F32 else Move(channels_last)


# A file of images channels last transposes its inputs, which a part stores like that.
def is_free(step: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a step on a value of this shape leaves all bytes in place."""
    if not isinstance(step, Move):
        return False
    fields = step.prepare(shape)[0].fields
    sizes = {fields["run"], fields["x_bytes"], fields["out_bytes"]}
    return fields["start"] == 0 and len(sizes) == 1


def moved(step: Move, from_rows: bool, into_rows: bool) -> Move:
    """Return a move of images, channels last, as one that reads or writes rows."""

    def look(codes: Any) -> Any:
        view = step.look(channels_last(codes) if from_rows else codes)
        return channels_first(view) if into_rows else view

    return Move(look, dtype=step.output_type)
