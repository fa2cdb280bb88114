"""Rotary positions, and the attention that ONNX Runtime's language models have.

A cache of keys and values has a place for each token so far. Here it grows from call to
call: the result has the places of the input, and one for each new token.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_between
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.operators.fused import MS
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape

Sizes = tuple[int, int, int, int]


@reads(f"{MS}RotaryEmbedding")
def rotary_embedding(g: Builder, op: Operator) -> None:
    """Read RotaryEmbedding: pairs of numbers of each head, turned by the position."""
    op.require("is_packed_batching", 0)
    op.require("scale", 1.0)
    x, shape = str(op.inputs[0]), require_fixed_shape(g, op, op.inputs[0])
    turned = int(op.get("rotary_embedding_dim", 0))
    if len(shape) == 4:
        x = g.step(op, "rows", md.permute_dims, x, axes=(0, 2, 1, 3))
    else:
        size = 2 * g.shape(op.inputs[2])[-1]
        heads = int(op.get("num_heads", 0)) if turned else shape[-1] // size
        x = _heads(g, op, x, heads, "heads")
    length = g.shape(x)[1]
    places = str(op.inputs[1])
    if g.shape(places) in ((), (1,)):
        steps = g.new_constant(op, "steps", np.arange(length)[None])
        places = g.step(op, "places", md.add, places, steps)
    interleaved = bool(op.get("interleaved", 0))
    found = turn(g, op, x, places, (str(op.inputs[2]), str(op.inputs[3])), interleaved)
    if len(shape) == 4:
        g.call(op, md.permute_dims, found, axes=(0, 2, 1, 3))
    else:
        g.call(op, md.reshape, found, shape=shape)


def _heads(g: Builder, op: Operator, x: str, heads: int, stem: str) -> str:
    """Return rows [n, length, heads · size] as [n, length, heads, size]."""
    batch, length, width = require_fixed_shape(g, op, x)
    require_between(op, heads, 1, max(width, 1), "the number of heads")
    if width % heads:
        problem = f"has rows of {width} numbers for {heads} heads"
        raise op.error(problem, "Give a number of heads that divides the rows")
    shape = (batch, length, heads, width // heads)
    return g.step(op, stem, md.reshape, x, shape=shape)


def turn(
    g: Builder,
    op: Operator,
    x: str,
    places: str,
    caches: tuple[str, str],
    interleaved: bool,
) -> str:
    """Return rows whose pairs of numbers are turned by the angles of their places.

    Args:
        x: [n, length, heads, size].
        places: the rows of the caches, [n or 1, length].
        caches: cosines and sines, [places, pairs].
        interleaved: a pair is two neighbours, not a number of each half.
    """
    pairs, shape = g.shape(caches[0])[-1], g.shape(x)
    require_between(op, 2 * pairs, 0, shape[-1], "twice the columns of the caches")
    cos, sin = (
        g.step(
            op,
            f"{x}.{stem}",
            md.expand_dims,
            g.step(op, f"{x}.{stem}.rows", md.take, cache, places, axis=0),
            axis=2,
        )
        for stem, cache in zip(("cos", "sin"), caches, strict=True)
    )
    cuts = [slice(0, pairs), slice(pairs, 2 * pairs)]
    if interleaved:
        cuts = [slice(start, 2 * pairs, 2) for start in (0, 1)]
    first, second = (
        g.step(op, f"{x}.{stem}", md.getitem, x, key=(..., cut))
        for stem, cut in zip(("first", "second"), cuts, strict=True)
    )

    def product(a: str, b: str) -> str:
        return g.step(op, f"{x}.part", md.mul, a, b)

    real = g.step(op, f"{x}.real", md.sub, product(first, cos), product(second, sin))
    rest = g.step(op, f"{x}.other", md.add, product(first, sin), product(second, cos))
    if interleaved:
        wide = [
            g.step(op, f"{x}.wide", md.expand_dims, y, axis=-1) for y in (real, rest)
        ]
        both = g.step(op, f"{x}.pairs", md.concat, *wide, axis=-1)
        parts = [g.step(op, f"{x}.flat", md.reshape, both, shape=(*shape[:-1], -1))]
    else:
        parts = [real, rest]
    if 2 * pairs < shape[-1]:
        cut = (..., slice(2 * pairs, shape[-1]))
        parts.append(g.step(op, f"{x}.unturned", md.getitem, x, key=cut))
    if len(parts) == 1:
        return parts[0]
    return g.step(op, f"{x}.turned", md.concat, *parts, axis=-1)


@reads(f"{MS}GroupQueryAttention")
def group_query_attention(g: Builder, op: Operator) -> None:
    """Read GroupQueryAttention: causal, with fewer heads of keys than of queries.

    Of a batch, each row may have its own number of tokens in the cache.
    """
    for at in range(12, 14):
        if op.input(at):
            raise op.error(
                f"reads {op.input(at)!r}, input {at}", "Supported are 0 to 11"
            )
    heads, groups = int(op.get("num_heads", 0)), int(op.get("kv_num_heads", 0))
    q, k, v = _queries_keys_values(g, op, heads, groups)
    batch, length, _, size = g.shape(q)
    past = g.shape(op.inputs[3])[2] if op.input(3) else 0
    known = g.array(op.input(6))
    if known is not None and int(known.reshape(-1)[0]) != past + length:
        problem = f"has {known.reshape(-1)[0]} places for {past} and {length} tokens"
        raise op.error(problem, "Export the model with a cache that grows")
    before = _tokens_before(g, op, past, length)
    steps = g.new_constant(op, "steps", np.arange(length)[None])
    places = g.step(op, "places", md.add, before, steps)
    if op.get("do_rotary", 0):
        caches = (str(op.inputs[7]), str(op.inputs[8]))
        given, kind = op.input(9) or places, bool(op.get("rotary_interleaved", 0))
        q, k = (turn(g, op, x, given, caches, kind) for x in (q, k))
    keys = _with_cache(g, op, k, 3, places)
    values = _with_cache(g, op, v, 4, places)
    sizes = (batch, heads // groups, past + length, size)
    _attend(g, op, q, (keys, values), places, sizes)
    for at, found in ((1, keys), (2, values)):
        g.call_output(op, at, md.astype, found, g.specs[found].dtype)


def _queries_keys_values(
    g: Builder, op: Operator, heads: int, groups: int
) -> tuple[str, str, str]:
    """Return queries, keys and values [n, length, heads, size]."""
    require_between(op, groups, 1, max(heads, 1), "kv_num_heads")
    if heads % groups:
        problem = f"has num_heads={heads} and kv_num_heads={groups}"
        raise op.error(problem, "Give a multiple")
    if op.input(1) and op.input(2):
        q, k, v = (str(name) for name in op.inputs[:3])
        counts = (heads, groups, groups)
        each = zip("qkv", (q, k, v), counts, strict=True)
        q, k, v = (_heads(g, op, name, count, stem) for stem, name, count in each)
        return q, k, v
    rows = _heads(g, op, str(op.inputs[0]), heads + 2 * groups, "heads")
    cuts = (0, heads, heads + groups, heads + 2 * groups)
    q, k, v = (
        g.step(
            op,
            stem,
            md.getitem,
            rows,
            key=(..., slice(*cuts[at : at + 2]), slice(None)),
        )
        for at, stem in enumerate("qkv")
    )
    return q, k, v


def _tokens_before(g: Builder, op: Operator, past: int, length: int) -> str:
    """Return how many tokens of each row the cache has, [n, 1].

    Without a cache there are none, and shorter rows end with other tokens.
    """
    if not past:
        return g.new_constant(op, "before", np.zeros((1, 1), np.int64))
    last = g.step(op, "last", md.reshape, op.inputs[5], shape=(-1, 1))
    wide = g.step(op, "count", md.astype, last, md.int64)
    return g.step(op, "before", md.sub, wide, length - 1)


def _with_cache(g: Builder, op: Operator, x: str, at: int, places: str) -> str:
    """Return keys or values [n, heads, places, size]: the cache and the new ones."""
    new = g.step(op, f"{x}.new", md.permute_dims, x, axes=(0, 2, 1, 3))
    cache = op.input(at)
    if cache is None or not g.shape(cache)[2]:
        return new
    batch, heads, length, size = g.shape(new)
    past = require_fixed_shape(g, op, cache)
    if past != (batch, heads, past[2], size):
        problem = f"has a cache of shape {past}"
        raise op.error(problem, f"Give it ({batch}, {heads}, length, {size})")
    g.reserve(op, batch, heads, past[2] + length, size)
    widths = ((0, 0), (0, 0), (0, length), (0, 0))
    longer = g.step(op, f"{x}.longer", md.pad, cache, pad_width=widths)
    column: dict[str, Any] = {"shape": (batch, 1, length, 1)}
    index = g.step(op, f"{x}.places", md.reshape, places, **column)
    each = g.step(
        op, f"{x}.each", md.broadcast_to, index, shape=(batch, heads, length, size)
    )
    return g.step(op, f"{x}.all", md.scatter, longer, each, new, axis=2)


def _attend(
    g: Builder, op: Operator, q: str, cached: tuple[str, str], places: str, sizes: Sizes
) -> None:
    """Add the attention of queries [n, length, heads, size] as the first output."""
    keys, values = cached
    batch, per_group, total, size = sizes
    _, length, heads, _ = g.shape(q)
    groups, out = g.shape(keys)[1], g.shape(values)[3]
    scale = op.get("scale", 0.0) or 1 / sqrt(size)
    # The queries of all heads that share keys are the rows of one product.
    apart = g.step(
        op, "apart", md.reshape, q, shape=(batch, length, groups, per_group, size)
    )
    turned = g.step(op, "turned", md.permute_dims, apart, axes=(0, 2, 3, 1, 4))
    shape: Any = (batch, groups, per_group * length, size)
    rows = g.step(op, "queries", md.reshape, turned, shape=shape)
    columns = g.step(op, "keys", md.permute_dims, keys, axes=(0, 1, 3, 2))
    products = g.step(op, "products", md.matmul, rows, columns)
    scores = g.step(op, "scores", md.mul, products, float(np.float32(scale)))
    shape = (batch, groups, per_group, length, total)
    scores = g.step(op, "split", md.reshape, scores, shape=shape)
    shares = _shares(g, op, scores, places)
    shape = (batch, groups, per_group * length, total)
    shares = g.step(op, "rows", md.reshape, shares, shape=shape)
    found = g.step(op, "found", md.matmul, shares, values)
    shape = (batch, groups, per_group, length, out)
    found = g.step(op, "results", md.reshape, found, shape=shape)
    back = g.step(op, "back", md.permute_dims, found, axes=(0, 3, 1, 2, 4))
    g.call(op, md.reshape, back, shape=(batch, length, heads * out))


def _shares(g: Builder, op: Operator, scores: str, places: str) -> str:
    """Return the share of each key, [n, groups, heads per group, length, places]."""
    batch, groups, per_group, length, total = g.shape(scores)
    limit = float(np.float32(op.get("softcap", 0.0)))
    if limit > 0:
        small = g.step(op, "small", md.div, scores, limit)
        bent = g.step(op, "bent", md.tanh, small)
        scores = g.step(op, "capped", md.mul, bent, limit)
    if op.input(10):
        bias = _bias(g, op, groups, per_group)
        scores = g.step(op, "biased", md.add, scores, bias)
    scores = g.step(op, "masked", md.add, scores, _mask(g, op, places, total))
    if not (op.input(11) or op.get("smooth_softmax", 0) == 1):
        return g.step(op, "shares", md.softmax, scores, axis=-1)
    # One more key, whose value is 0: its score is 0, or of the head.
    sink = op.input(11) or g.new_constant(op, "sink", np.zeros(groups * per_group))
    column = (groups, per_group, 1, 1)
    sink = g.step(op, "sinks", md.reshape, sink, shape=column)
    sink = g.step(op, "sink_type", md.astype, sink, g.specs[scores].dtype)
    wide = (batch, *column[:2], length, 1)
    sink = g.step(op, "each_sink", md.broadcast_to, sink, shape=wide)
    longer = g.step(op, "longer", md.concat, scores, sink, axis=-1)
    shares = g.step(op, "all_shares", md.softmax, longer, axis=-1)
    return g.step(op, "shares", md.getitem, shares, key=(..., slice(0, total)))


def _bias(g: Builder, op: Operator, groups: int, per_group: int) -> str:
    """Return the bias of the scores, for all heads or for each, by groups of heads."""
    given, every = require_fixed_shape(g, op, op.inputs[10]), groups * per_group
    if len(given) != 4 or given[1] not in (1, every):
        problem = f"has a bias of shape {given}"
        raise op.error(problem, f"Give it (n, 1 or {every}, length, places)")
    heads = (1, 1) if given[1] == 1 else (groups, per_group)
    shape: Any = (given[0], *heads, *given[2:])
    return g.step(op, "bias", md.reshape, op.inputs[10], shape=shape)


def _mask(g: Builder, op: Operator, places: str, total: int) -> str:
    """Return 0 for the keys up to the place of a query, else -inf, [n, 1, 1, q, k]."""
    g.reserve(op, total)
    numbers = g.new_constant(op, "numbers", np.arange(total))
    last = g.step(op, "last_key", md.expand_dims, places, axis=-1)
    is_later = g.step(op, "is_later", md.greater, numbers, last)
    window = int(op.get("local_window_size", -1))
    if window > 0:
        first = g.step(op, "first_key", md.sub, last, window)
        is_old = g.step(op, "is_old", md.less_equal, numbers, first)
        is_later = g.step(op, "is_hidden", md.logical_or, is_later, is_old)
    dtype = g.specs[str(op.inputs[0])].dtype.storage
    zero, low = (
        g.new_constant(op, stem, np.array(n, dtype))
        for stem, n in (("zero", 0), ("low", -np.inf))
    )
    mask = g.step(op, "mask", md.where, is_later, low, zero)
    shape: Any = {"shape": (-1, 1, 1, *g.shape(mask)[1:])}
    return g.step(op, "wide_mask", md.reshape, mask, **shape)
