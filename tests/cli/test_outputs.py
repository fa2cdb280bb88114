"""What is told of an output: winners of scores, the range of maps, agreement."""

from typing import Any

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
    assert [c["class"] for c in summary(np.zeros((1, 3)))["top"][0]] == [0, 1, 2]


# A network that ends in ArgMax returns a class for each sample, not scores.
@pytest.mark.parametrize("array", [np.array([7, 2, 9]), np.array([[7, 2]], np.uint8)])
def test_integers_are_no_scores(array: Any) -> None:
    found = summary(array)
    assert found["argmax"] is None and found["top"] is None
    assert found["first"] == array.reshape(-1).tolist()
    assert all(type(n) is int for n in (*found["first"], *found["range"]))


def test_one_axis_has_scores_if_it_has_labels() -> None:
    row = np.array([0.1, 0.7, 0.2])
    assert summary(row)["argmax"] is None
    assert summary(row, ["a", "b", "c"])["argmax"] == [1]
    assert summary(row, ["a", "b"])["argmax"] is None


def test_compared_integers_have_no_noise() -> None:
    found = compare_outputs([(np.array([7, 2, 9]), np.array([7, 3, 9]))])
    assert (found["equal"], found["integers"], found["rows"]) == (2, 3, 0)
    assert found["sqnr_db"] is None and found["largest_difference"] == 1


def test_labels_must_be_as_many_as_classes() -> None:
    with pytest.raises(DataError, match="expected 3 labels, one for each class, not 2"):
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
