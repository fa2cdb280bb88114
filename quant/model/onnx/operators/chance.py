"""Readers of operators that draw random numbers.

A model is a function, so its random numbers are drawn once, while the file is read, and
are constants. The seed is that of the node; without one it follows from the name of the
node, so each node draws other numbers, and a file the same ones whenever it is loaded.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Array, Builder, Operator, element_type
from mdtensor.quant.model.onnx.operators.table import reads, require_fixed_shape

FLOAT32, INT32 = 1, 6


def _generator(op: Operator) -> np.random.Generator:
    """Return the numbers of a node, which are the same for each file that is read."""
    seed = op.get("seed")
    if seed is None:
        return np.random.default_rng(crc32(op.name.encode()))
    # A seed of ONNX is a float; its bits are an integer that is never negative.
    return np.random.default_rng(int(np.float32(seed).view(np.uint32)))


def _shape(g: Builder, op: Operator) -> tuple[int, ...]:
    """Return the shape of the attribute, or that of the input."""
    if not op.kind.endswith("Like") and op.kind != "Bernoulli":
        return tuple(op.get("shape", ()))
    return require_fixed_shape(g, op, op.inputs[0])


def _dtype(g: Builder, op: Operator) -> Any:
    """Return the element type of the attribute, or that of the input."""
    code = op.get("dtype", 0)
    if not code and op.inputs:
        return g.specs[str(op.inputs[0])].dtype
    return element_type(code or FLOAT32, str(op))


# Numbers that differ between calls would make results impossible to compare, and a
# calibrated grid would not hold for them (decision 0120).
@reads("RandomNormal", "RandomNormalLike")
def normal(g: Builder, op: Operator) -> None:
    """Read RandomNormal: numbers of a normal distribution."""
    shape = _shape(g, op)
    g.reserve(op, *shape)
    drawn = _generator(op).standard_normal(shape)
    _enter(g, op, drawn * op.get("scale", 1.0) + op.get("mean", 0.0))


@reads("RandomUniform", "RandomUniformLike")
def uniform(g: Builder, op: Operator) -> None:
    """Read RandomUniform: numbers from `low` to `high`, without `high`."""
    shape, low, high = _shape(g, op), op.get("low", 0.0), op.get("high", 1.0)
    g.reserve(op, *shape)
    _enter(g, op, low + (high - low) * _generator(op).random(shape))


def _enter(g: Builder, op: Operator, drawn: Array) -> None:
    """Add the numbers as the result, rounded to its element type."""
    found = md.astype(md.asarray(drawn), _dtype(g, op), casting="saturate")
    g.constant(op.outputs[0], found)


@reads("Bernoulli")
def bernoulli(g: Builder, op: Operator) -> None:
    """Read Bernoulli: 1 where a number from 0 to 1 is less than the input."""
    shape, given = _shape(g, op), str(op.inputs[0])
    g.reserve(op, *shape)
    drawn = _generator(op).random(shape).astype(g.specs[given].dtype.storage)
    limits = g.new_constant(op, "drawn", drawn)
    is_one = g.step(op, "is_one", md.less, limits, given)
    g.call(op, md.astype, is_one, _dtype(g, op))


@reads("Multinomial")
def multinomial(g: Builder, op: Operator) -> None:
    """Read Multinomial: classes, each drawn as often as its logarithm says.

    The class with the largest sum of its logarithm and a number of a Gumbel
    distribution is such a class.
    """
    given, count = str(op.inputs[0]), op.get("sample_size", 1)
    rows, classes = require_fixed_shape(g, op, given)
    g.reserve(op, rows, count, classes)
    drawn = _generator(op).gumbel(size=(rows, count, classes))
    noise = g.new_constant(op, "drawn", drawn.astype(g.specs[given].dtype.storage))
    each = g.step(op, "each", md.expand_dims, given, axis=1)
    scores = g.step(op, "scores", md.add, each, noise)
    places = g.step(op, "places", md.argmax, scores, axis=2)
    g.call(op, md.astype, places, element_type(op.get("dtype", INT32), str(op)))
