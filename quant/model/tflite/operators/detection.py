"""Readers of operators whose result has as many elements as the data decides."""

from __future__ import annotations

import numpy as np

import mdtensor as md
from mdtensor.quant.model.onnx.axes import require_count
from mdtensor.quant.model.tflite.build import Call, Reading
from mdtensor.quant.model.tflite.operators.table import integers, reads


@reads("WHERE")
def where(g: Reading, op: Call) -> None:
    """Read WHERE: the indices of all elements that are not 0, a row for each."""
    g.move(op, md.argwhere, g.rows(op.operand(0)))


# A sigma of 0 lowers no score, so that the fifth version is the fourth, with scores.
@reads("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5")
def non_max_suppression(g: Reading, op: Call) -> None:
    """Read NON_MAX_SUPPRESSION: which boxes stay, filled up with zeros; their number.

    The fifth version has the scores of the boxes as its second result.
    """
    (most,) = integers(g, op, 2, "the number of boxes")
    if most < 0:
        raise op.error(f"keeps {most} boxes", "Use 0 or more")
    limit, least = (_number(g, op, at) for at in (3, 4))
    # LiteRT removes a box whose overlap is the limit, too; here it must be above it. At
    # a limit of 0 even boxes that do not touch are removed.
    kept = most if limit > 0 else min(most, 1)
    below = float(np.nextafter(np.float32(limit), np.float32(-1))) if limit > 0 else 0.0
    has_scores = op.kind.endswith("V5")
    if has_scores and (sigma := _number(g, op, 5)):
        raise op.error(f"lowers scores by a sigma of {sigma}", "Export it with 0")
    scores = g.rows(op.operand(1))
    found = _boxes(g, op, scores, kept, below, least)
    places = _filled(g, op, found, most)
    g.move(op, md.astype, places, md.int32)
    if has_scores:
        _write_scores(g, op, scores, places, found)
    if len(op.outputs) > 1 + has_scores:
        ones = g.builder.step(op, "ones", md.greater_equal, found, 0)
        count = g.builder.step(op, "count", md.sum, ones, dtype=md.int32)
        g.move(op, md.astype, count, md.int32, at=1 + has_scores)


def _number(g: Reading, op: Call, index: int) -> float:
    """Return an input that must be known while the file is read, as one number."""
    op.operand(index)
    found = g.builder.require_array(op, index, f"input {index}").reshape(-1)
    require_count(op, found, 1, f"input {index}")
    return float(found[0])


def _boxes(
    g: Reading, op: Call, scores: str, most: int, limit: float, least: float
) -> str:
    """Return the numbers of the boxes that stay, highest score first."""
    boxes = g.builder.step(op, "boxes", md.expand_dims, g.rows(op.operand(0)), axis=0)
    classes = g.builder.step(op, "classes", md.expand_dims, scores, axis=(0, 1))
    rows = g.builder.step(
        op,
        "rows",
        md.non_max_suppression,
        boxes,
        classes,
        max_boxes=most,
        iou_threshold=limit,
        score_threshold=least if np.isfinite(least) else None,
    )
    return g.builder.step(op, "found", md.getitem, rows, key=(slice(None), 2))


def _filled(g: Reading, op: Call, found: str, most: int) -> str:
    """Return `most` numbers of boxes: those that stay, and zeros."""
    zeros = g.builder.new_constant(op, "zeros", np.zeros(most, np.int64))
    longer = g.builder.step(op, "longer", md.concat, found, zeros, axis=0)
    first = g.builder.step(op, "first", md.getitem, longer, key=slice(0, most))
    return g.builder.step(op, "places", md.reshape, first, shape=(most,))


def _write_scores(g: Reading, op: Call, scores: str, places: str, found: str) -> None:
    """Write the scores of the boxes that stay, and 0 behind them."""
    if len(op.outputs) < 2:
        return
    values = g.builder.step(op, "values", md.take, scores, found, axis=0)
    most = g.builder.shape(places)[0]
    dtype = g.builder.specs[scores].dtype.storage
    zeros = g.builder.new_constant(op, "no_scores", np.zeros(most, dtype))
    longer = g.builder.step(op, "scores", md.concat, values, zeros, axis=0)
    first = g.builder.step(op, "best", md.getitem, longer, key=slice(0, most))
    g.move(op, md.reshape, first, shape=(most,), at=1)
