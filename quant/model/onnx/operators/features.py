"""Readers of the operators of ai.onnx.ml that prepare features or name results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.onnx.build import Array, Builder, Operator
from mdtensor.quant.model.onnx.operators.scores import cast, numbers, rows
from mdtensor.quant.model.onnx.operators.table import reads


def last_size(g: Builder, op: Operator) -> int:
    """Return the size of the last axis of the first input, -1 if it is dynamic."""
    shape = g.shape(op.inputs[0])
    if not shape:
        raise op.error(f"reads {op.inputs[0]!r} without axes", "Give it [n, f]")
    return int(shape[-1])


def per_feature(g: Builder, op: Operator, name: str, given: Array) -> Array:
    """Return an attribute with 1 number, or one for each feature.

    Raises:
        ModelError: it has another count.
    """
    if given.size != 1 and last_size(g, op) > 0:
        require_count(op, given, last_size(g, op), name)
    return given.reshape(()) if given.size == 1 else given


@reads("ai.onnx.ml.Scaler")
def scaler(g: Builder, op: Operator) -> None:
    """Read Scaler: (x - offset) · scale."""
    x = str(op.inputs[0])
    wide = md.float64 if g.specs[x].dtype is md.float64 else md.float32
    found = cast(g, op, x, wide)
    offset, scale = numbers(op, "offset"), numbers(op, "scale")
    require_count(op, scale, offset.size, "scale")
    for stem, operation, given in (
        ("offset", md.sub, offset),
        ("scale", md.mul, scale),
    ):
        values = per_feature(g, op, stem, given).astype(wide.storage)
        operand = g.new_constant(op, stem, values)
        found = g.step(op, f"{stem}.applied", operation, found, operand)
    g.alias(op, op.outputs[0], cast(g, op, found, md.float32))


@reads("ai.onnx.ml.Normalizer")
def normalizer(g: Builder, op: Operator) -> None:
    """Read Normalizer: divide each row by its norm, computed in float64.

    The text divides L1 by the sum of x. Here it is that of |x|, as in ONNX Runtime and
    in the reference of the package onnx; L2 keeps the sign of x, as in both.
    """
    x = str(op.inputs[0])
    if len(g.shape(x)) not in (1, 2):
        raise op.error(f"reads {x!r} of shape {g.shape(x)}", "Give it [n, f] or [f]")
    wide, kind = cast(g, op, x, md.float64), op.get("norm", "MAX")
    part: str = wide
    operation: Any = md.max
    if kind == "L1":
        part, operation = g.step(op, "size", md.abs, wide), md.sum
    elif kind == "L2":
        part, operation = g.step(op, "square", md.mul, wide, wide), md.sum
    norm = g.step(op, "norm", operation, part, axis=-1, keepdims=True)
    if kind == "L2":
        norm = g.step(op, "root", md.sqrt, norm)
    is_zero = g.step(op, "is_zero", md.equal, norm, 0.0)
    divisor = g.step(op, "divisor", md.where, is_zero, 1.0, norm)
    found = g.step(op, "quotient", md.div, wide, divisor)
    g.alias(op, op.outputs[0], cast(g, op, found, md.float32))


@reads("ai.onnx.ml.Binarizer")
def binarizer(g: Builder, op: Operator) -> None:
    """Read Binarizer: 1 above the threshold, else 0; NaN is not above."""
    x, limit = str(op.inputs[0]), op.get("threshold", 0.0)
    dtype = g.specs[x].dtype
    if dtype.is_integer:
        # An integer is above the threshold if it is above its floor, limited to the
        # type: then a smaller threshold needs a test that includes the least number.
        known = np.iinfo(dtype.storage)
        whole = math.floor(limit) if math.isfinite(limit) else limit
        if whole < known.min:
            is_above = g.step(op, "is_above", md.greater_equal, x, int(known.min))
        else:
            is_above = g.step(op, "is_above", md.greater, x, int(min(whole, known.max)))
    else:
        is_above = g.step(op, "is_above", md.greater, x, limit)
    g.call(op, md.astype, is_above, dtype)


@reads("ai.onnx.ml.Imputer")
def imputer(g: Builder, op: Operator) -> None:
    """Read Imputer: replace one value, maybe NaN, along the last axis."""
    x = str(op.inputs[0])
    dtype = g.specs[x].dtype
    kind, end = ("int64", "int64s") if dtype.is_integer else ("float", "floats")
    name, missing = f"imputed_value_{end}", op.get(f"replaced_value_{kind}", 0)
    given = np.asarray(op.get(name) or ())
    if not given.size:
        raise op.error(f"does not have {name}, and its input is {dtype}", "Give it")
    values = per_feature(g, op, name, given).astype(dtype.storage)
    if dtype.is_integer and not np.array_equal(values.reshape(-1), given):
        raise op.error(f"has {name}={tuple(given)} for {dtype}", "Use numbers that fit")
    if dtype.is_integer and missing != int(np.array(missing).astype(dtype.storage)):
        g.alias(op, op.outputs[0], x)
        return
    if math.isnan(missing):
        is_missing = g.step(op, "is_missing", md.isnan, x)
    else:
        is_missing = g.step(op, "is_missing", md.equal, x, missing)
    g.call(op, md.where, is_missing, g.new_constant(op, "imputed", values), x)


@reads("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(g: Builder, op: Operator) -> None:
    """Read FeatureVectorizer: join the columns of its inputs, in float32.

    An input whose size differs from `inputdimensions` is an error; ONNX Runtime would
    cut it, or add zeros.
    """
    parts = [rows(g, op, md.float32, index) for index in range(len(op.inputs))]
    sizes = op.get("inputdimensions")
    if sizes is not None:
        require_count(op, sizes, len(parts), "inputdimensions")
        for part, size, name in zip(parts, sizes, op.inputs, strict=True):
            found = g.shape(part)[1]
            if found not in (-1, size):
                raise op.error(
                    f"has inputdimensions={tuple(sizes)}, and {name!r} has {found} "
                    "columns",
                    "Give the number of columns of each input",
                )
    g.call(op, md.concat, *parts, axis=1)


@reads("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(g: Builder, op: Operator) -> None:
    """Read ArrayFeatureExtractor: take elements along the last axis.

    A single axis becomes a row, [1, n], as in ONNX Runtime.
    """
    x, places = str(op.inputs[0]), str(op.inputs[1])
    size, known = last_size(g, op), g.array(places)
    # A negative index would count from the end here, and is undefined in the file.
    if known is not None and size > 0:
        for index in known.reshape(-1).tolist():
            if not 0 <= index < size:
                raise op.error(
                    f"has index {index} for a value of size {size}",
                    f"Use one from 0 to {size - 1}",
                )
    if len(g.shape(x)) == 1:
        x = g.step(op, "row", md.expand_dims, x, axis=0)
    flat: dict[str, Any] = {"shape": (-1,)}
    index = g.step(op, "flat", md.reshape, places, **flat)
    g.call(op, md.take, x, index, axis=-1)


@reads("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(g: Builder, op: Operator) -> None:
    """Read OneHotEncoder: a new last axis with a 1 at the category of each element.

    Floats are cut to integers. With `zeros=0` an unknown category raises BoundsError
    when the model runs.
    """
    if op.get("cats_strings"):
        raise op.error("has categories that are text", "Encode integers")
    given = op.get("cats_int64s") or ()
    if not given:
        raise op.error("does not have cats_int64s", "Give it the categories")
    count, x = len(given), str(op.inputs[0])
    dtype: md.DType
    if g.specs[x].dtype.is_integer:
        dtype, x = md.int64, cast(g, op, x, md.int64)
    else:
        # NaN and infinity stay what they are, so that they are no category.
        dtype = md.float64
        x = g.step(op, "whole", md.trunc, cast(g, op, x, dtype))
    known = g.new_constant(op, "categories", np.array(given, dtype.storage))
    column = g.step(op, "column", md.expand_dims, x, axis=-1)
    hits = g.step(op, "hits", md.equal, column, known)
    last = {value: at for at, value in enumerate(given)}
    if len(last) < count:
        # Of a repeated category, the last one counts, as in ONNX Runtime.
        is_last = np.isin(np.arange(count), list(last.values()))
        mask = g.new_constant(op, "is_last", is_last)
        hits = g.step(op, "last", md.logical_and, hits, mask)
    if op.get("zeros", 1):
        g.call(op, md.astype, hits, md.float32)
        return
    number = g.step(op, "number", md.astype, hits, md.int8)
    place = g.step(op, "place", md.argmax, number, axis=-1)
    is_known = g.step(op, "is_known", md.any, hits, axis=-1)
    # The index `count` is outside of the table, so that `take` raises.
    index = g.step(op, "index", md.where, is_known, place, count)
    table = g.new_constant(op, "table", np.eye(count, dtype=np.float32))
    g.call(op, md.take, table, index, axis=0)


@reads("ai.onnx.ml.ZipMap")
def zip_map(g: Builder, op: Operator) -> None:
    """Read ZipMap: its result is its input, with a column for each label in order."""
    labels = op.get("classlabels_int64s") or op.get("classlabels_strings") or ()
    size = last_size(g, op)
    if size > 0:
        require_count(op, labels, size, "labels")
    g.alias(op, op.outputs[0], str(op.inputs[0]))
