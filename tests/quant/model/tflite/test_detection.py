"""WHERE and non-maximum suppression: the data decides how many elements come out."""

from typing import Any

import numpy as np
import pytest
from support.tflite_networks import const, moving

from bench.rivals.tflite_file import Step, Value, model, options_of
from mdtensor.errors import ModelError


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4)])
def test_where(shape: tuple[int, ...], load_bytes: Any, litert: Any) -> None:
    flags = Value(shape, dtype="bool", name="x")
    places = Value((1, len(shape)), dtype="int64")
    content = model([flags, places], [Step("WHERE", [0], 1, version=1)], [0], [1])
    network = load_bytes(content)
    for share in (0.3, 0.0, 1.0):
        x = np.random.default_rng(5).random(shape) < share
        assert network(x).tolist() == np.argwhere(x).tolist()
        # LiteRT's Python interface cannot return an empty tensor.
        if share:
            assert network(x).tolist() == litert(content)(x)[0].tolist()


def suppression(
    kind: str, most: int, limit: float, least: float, sigma: float
) -> bytes:
    values = [
        *(moving(20, 4), moving(20), const(np.int32(most))),
        *(const(np.float32(limit)), const(np.float32(least))),
        *(const(np.float32(sigma)), Value((most,), dtype="int32")),
        *(moving(most), Value((), dtype="int32")),
    ]
    is_fifth = kind.endswith("V5")
    results = [6, 7, 8] if is_fifth else [6, 8]
    step = Step(
        kind,
        range(6 if is_fifth else 5),
        results,
        options_of(f"NonMaxSuppression{kind[-2:]}"),
        version=1,
    )
    return model(values, [step], [0, 1], results)


@pytest.mark.parametrize("kind", ["NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"])
@pytest.mark.parametrize("limits", [(0.5, 0.2), (0.0, 0.5), (1.0, -10.0), (0.3, 2.0)])
@pytest.mark.parametrize("most", [1, 8, 20])
def test_non_max_suppression(
    kind: str, limits: tuple[float, float], most: int, load_bytes: Any, litert: Any
) -> None:
    rng = np.random.default_rng(most)
    corners = rng.random((20, 2)).astype(np.float32)
    sizes = rng.random((20, 2)).astype(np.float32) / 2
    boxes = np.concatenate([corners, corners + sizes], axis=1)
    # An equal box has the largest overlap, 1.
    boxes[7] = boxes[3]
    scores = rng.permutation(20).astype(np.float32) / 20
    content = suppression(kind, most, *limits, 0)
    theirs = litert(content)(boxes, scores)
    for one, other in zip(load_bytes(content)(boxes, scores), theirs, strict=True):
        one = np.asarray(one)
        assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())


def test_scores_that_are_lowered(load_bytes: Any) -> None:
    content = suppression("NON_MAX_SUPPRESSION_V5", 4, 0.5, 0.0, 0.5)
    with pytest.raises(ModelError, match=r"lowers scores by a sigma of 0\.5"):
        load_bytes(content)
