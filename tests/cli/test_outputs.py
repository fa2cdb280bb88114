"""What is told of an output: winners of scores, the range of maps, agreement."""

import numpy as np
import pytest

from mdtensor.cli.report import compare_outputs, summary
from mdtensor.errors import DataError


def test_scores_have_winners() -> None:
    found = summary(np.array([[1, 3, 2], [9, 8, 7]], np.int32), ["a", "b", "c"])
    assert found["argmax"] == [1, 0]
    assert [c["label"] for c in found["top"][0]] == ["b", "c", "a"]
    assert found["range"] == [1.0, 9.0] and found["dtype"] == "int32"


@pytest.mark.parametrize("shape", [(), (4, 1), (1, 2, 3, 4), (0, 3)])
def test_maps_and_single_numbers_have_none(shape: tuple[int, ...]) -> None:
    found = summary(np.ones(shape, np.float16))
    assert found["argmax"] is None and found["top"] is None
    assert found["range"] == ([1.0, 1.0] if np.prod(shape) else None)


def test_only_some_rows_are_told_in_full() -> None:
    found = summary(np.eye(20, dtype=np.float32))
    assert len(found["argmax"]) == 20 and len(found["top"]) == 8


def test_equal_scores_keep_their_order() -> None:
    assert [c["class"] for c in summary(np.zeros(3))["top"][0]] == [0, 1, 2]


def test_labels_must_be_as_many_as_classes() -> None:
    with pytest.raises(DataError, match="expected 3 labels, one a class, not 2"):
        summary(np.zeros((1, 3)), ["a", "b"])


def test_compared() -> None:
    real, coded = np.array([[3.0, 4.0]]), np.array([[3.5, 4.0]])
    found = compare_outputs([(real, coded), (real, real[:, ::-1])])
    assert (found["rows"], found["same_argmax"]) == (2, 1)
    assert found["largest_difference"] == 1.0
    assert found["sqnr_db"] == pytest.approx(10 * np.log10(50 / 2.25))


def test_equal_outputs_have_no_noise() -> None:
    real = np.ones((1, 2, 3, 3), np.float32)
    found = compare_outputs([(real, real)])
    assert found["sqnr_db"] is None and found["rows"] == 0
