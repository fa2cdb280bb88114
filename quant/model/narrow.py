"""Numbers as the nearest elements of types of floats with 8 bits or fewer."""

from __future__ import annotations

from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.build import Builder, Operator
from mdtensor.quant.model.onnx.elements import ELEMENTS, Element, magnitudes
from mdtensor.quant.model.operators.conversion import cast as cast_to_plain, target_code

#: What is beyond the largest number of a type, where it does not saturate.
BEYOND = {"float8_e5m2": np.inf}


def nearest(x: Any, element: Element, *, saturate: bool = True) -> Any:
    """The nearest number that a type of floats has, ties to the even one.

    Args:
        x: float32, any shape; a NaN stays one.
        element: the type of floats.
        saturate: what is beyond the largest number becomes that; otherwise infinity,
            or NaN in types that have none.

    Returns:
        Float32Tensor.

    Source: ONNX `Cast`.
    """
    known = magnitudes(element.code)
    beyond = 2 * known[-1] - known[-2]  # the next number, if there were one
    middles = md.asarray((known + np.append(known[1:], beyond)) / np.float32(2))
    flat = md.reshape(md.abs(x), shape=(-1,))
    below = md.searchsorted(middles, flat, side="left")
    above = md.searchsorted(middles, flat, side="right")  # differs on ties
    is_even = md.equal(md.remainder(below, 2), 0)
    last = known[-1] if saturate else BEYOND.get(element.storage, np.nan)
    values = md.asarray(np.append(known, np.float32(last)))
    found = md.take(values, md.where(is_even, below, above), axis=0)
    signed = md.copysign(md.reshape(found, shape=x.shape), x)
    return md.where(md.isnan(x), x, signed)


def _low_bits(x: Any, element: Element) -> Any:
    """Whole numbers as the integers that have their last bits."""
    low, high = element.range
    whole = md.astype(x, md.int64, casting="saturate")
    return md.astype(
        md.add(md.remainder(md.sub(whole, low), high + 1 - low), low), element.wide
    )


def cast(g: Builder, op: Operator) -> None:
    """To an element type that a wider one holds; anything else as in a graph."""
    element = ELEMENTS.get(target_code(g, op))
    if element is None:
        cast_to_plain(g, op)
        return
    if element.is_scale:
        raise op.refusal(f"gives {element}, powers of 2", "Keep scales in float32")
    x, output = g.constants[str(op.inputs[0])], op.outputs[0]
    if element.is_float:
        wide = md.astype(x, md.float32, casting="saturate")
        found = nearest(wide, element, saturate=bool(op.get("saturate", 1)))
    else:
        found = _low_bits(x, element)
    g.constant(output, found)
    g.elements[output] = element
