"""Readers of the attention of ONNX Runtime: Attention and MultiHeadAttention.

Rows of several heads lie side by side. Here the heads become an axis, and the rest is
products and a softmax, which plans join.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_between, require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.fused import MS
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape

#: What ONNX Runtime adds to the scores of masked keys.
MASKED = -10000.0


@reads(f"{MS}Attention")
def attention(g: Builder, op: Operator) -> None:
    """Read Attention: of the products of x with the weights of q, k and v."""
    _refuse(op, {4: "past", 6: "past_sequence_length"})
    op.require("do_rotary", 0)
    x, weights, bias = op.inputs[0], op.inputs[1], op.input(2)
    all_three = g.step(op, "product", md.matmul, x, weights)
    _attend_to_parts(g, op, all_three, bias, (op.input(3), op.input(5)))


@reads(f"{MS}QAttention")
def quantized_attention(g: Builder, op: Operator) -> None:
    """Read QAttention: Attention with an exact product of codes.

    The sums are multiplied by the scales of x and of the weights, in float32.
    """
    _refuse(op, {8: "past"})
    op.require("do_rotary", 0)
    x, weights, bias, x_scale, scale = (str(name) for name in op.inputs[:5])
    given = (x, weights, op.input(6), op.input(7))
    sums = g.step(op, "sums", md.matmul_integer, *given)
    real = g.step(op, "real", md.astype, sums, md.float32)
    factor = g.step(op, "factor", md.mul, x_scale, scale)
    product = g.step(op, "product", md.mul, real, factor)
    _attend_to_parts(g, op, product, bias, (op.input(5), None))


def _attend_to_parts(
    g: Builder,
    op: Operator,
    all_three: str,
    bias: str | None,
    masks: tuple[str | None, str | None],
) -> None:
    """Add the attention of q, k and v, which lie side by side in a product."""
    if bias:
        all_three = g.step(op, "biased", md.add, all_three, bias)
    columns = g.shape(all_three)[-1]
    sizes = tuple(op.get("qkv_hidden_sizes", (columns // 3,) * 3))
    require_count(op, sizes, 3, "qkv_hidden_sizes")
    if sum(sizes) != columns:
        problem = f"has qkv_hidden_sizes={[*sizes]} for {columns} columns of weights"
        raise op.error(problem, f"Use three sizes that add up to {columns}")
    ends = np.cumsum((0, *sizes)).tolist()
    parts = [
        g.step(
            op, stem, md.getitem, all_three, key=(..., slice(ends[at], ends[at + 1]))
        )
        for at, stem in enumerate("qkv")
    ]
    _attend(g, op, parts, *masks)


@reads(f"{MS}MultiHeadAttention")
def multi_head_attention(g: Builder, op: Operator) -> None:
    """Read MultiHeadAttention: of three values with rows of all heads."""
    _refuse(op, {6: "past_key", 7: "past_value", 8: "past_sequence_length"})
    if not (op.input(1) and op.input(2)):
        raise op.error("packs q, k and v in one input", "Give it three inputs")
    parts = [str(name) for name in op.inputs[:3]]
    for name in parts:
        if len(g.shape(name)) != 3:
            problem = f"has an input of shape {g.shape(name)}"
            raise op.error(problem, "Give it [batch, length, heads · size]")
    if op.input(3):
        ends = np.cumsum([0, *(g.shape(name)[-1] for name in parts)]).tolist()
        for at, stem in enumerate("qkv"):
            key: Any = {"key": slice(ends[at], ends[at + 1])}
            own = g.step(op, f"bias_{stem}", md.getitem, op.inputs[3], **key)
            parts[at] = g.step(op, f"biased_{stem}", md.add, parts[at], own)
    _attend(g, op, parts, op.input(4), op.input(5))


def _refuse(op: Operator, names: dict[int, str]) -> None:
    """Raise for caches of keys and values, which change from call to call."""
    for at, name in names.items():
        if op.input(at):
            raise op.error(f"reads {name}", "Export the model without a cache")


def _attend(
    g: Builder, op: Operator, parts: list[str], mask: str | None, added: str | None
) -> None:
    """Add the attention of q, k and v with rows [batch, length, heads · size].

    Args:
        mask: integers [batch, keys], 0 or less where a key is masked.
        added: numbers that are added to the scores.
    """
    heads = int(op.get("num_heads", 0))
    split = []
    for stem, name in zip("qkv", parts, strict=True):
        # The keys are transposed for the product with the queries.
        axes = (0, 2, 3, 1) if stem == "k" else (0, 2, 1, 3)
        batch, length, width = require_fixed_shape(g, op, name)
        require_between(op, heads, 1, max(width, 1), "num_heads")
        size = width // heads
        apart = g.step(
            op, f"{stem}_apart", md.reshape, name, shape=(batch, length, heads, size)
        )
        split.append(g.step(op, stem, md.permute_dims, apart, axes=axes))
    q, k, v = split
    batch, _, length, size = g.shape(q)
    keys, scale = g.shape(k)[3], op.get("scale", 0.0) or 1 / sqrt(size)
    products = g.step(op, "products", md.matmul, q, k)
    scores = g.step(op, "scores", md.mul, products, float(np.float32(scale)))
    masks = [*_added_masks(g, op, mask, (batch, length, keys)), added]
    for name in filter(None, masks):
        scores = g.step(op, "masked", md.add, scores, name)
    shares = g.step(op, "shares", md.softmax, scores, axis=-1)
    found = g.step(op, "heads", md.matmul, shares, v)
    rows = g.step(op, "rows", md.permute_dims, found, axes=(0, 2, 1, 3))
    shape = (batch, length, g.shape(v)[3] * heads)
    g.call(op, md.reshape, rows, shape=shape)


def _added_masks(
    g: Builder, op: Operator, mask: str | None, sizes: tuple[int, int, int]
) -> list[str]:
    """Return what masks add to the scores: of keys, and of keys behind a query."""
    batch, length, keys = sizes
    least, found = float(op.get("mask_filter_value", MASKED)), []
    if mask is not None:
        if g.shape(mask) != (batch, keys):
            problem = f"has a mask of shape {g.shape(mask)}"
            raise op.error(problem, f"Give it the shape ({batch}, {keys})")
        is_kept = g.step(op, "is_kept", md.greater, mask, 0)
        zero, low = (
            g.new_constant(op, stem, np.array(n, np.float32))
            for stem, n in (("zero", 0), ("low", least))
        )
        row = g.step(op, "mask", md.where, is_kept, zero, low)
        shape: Any = {"shape": (batch, 1, 1, keys)}
        found.append(g.step(op, "row", md.reshape, row, **shape))
    if op.get("unidirectional", 0):
        found.append(g.new_constant(op, "causal", _causal(g, op, length, keys)))
    return found


def _causal(g: Builder, op: Operator, length: int, keys: int) -> Array:
    """Return what is added to scores, so that no query reads a later key.

    The lowest number is below any other mask, so a query whose own keys are masked
    reads these. The last query reads all keys, also if these are more than queries.

    Source: ONNX Runtime, `core/.../cpu/bert/attention_helper.h`, `PrepareMask`.
    """
    g.reserve(op, length, keys)
    later = np.triu(np.ones((length, keys), bool), 1)
    later[-1:] = False
    return np.where(later, np.finfo(np.float32).min, np.float32(0))
