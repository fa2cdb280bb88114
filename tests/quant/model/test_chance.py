"""Operators that draw random numbers: the same ones whenever the file is loaded."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from mdtensor.quant import load

node = helper.make_node
#: A count of which the statistics of a fixed seed are known well.
COUNT = 40_000
#: More standard deviations of a mean than any test here ever sees.
SIGMAS = 5


def drawn(make_model: Any, kind: str, **options: Any) -> Any:
    """Return what an operator draws, as the only result of a file that adds it to 0."""
    like = kind.endswith("Like")
    inputs, shape = (["x"], {}) if like else ([], {"shape": [COUNT]})
    nodes = [
        node(kind, inputs, ["r"], name=options.pop("name", "one"), **shape, **options),
        node("Sub", ["x", "x"], ["zero"]),
        node("Add", ["r", "zero"], ["y"]),
    ]
    return load(make_model(nodes, {"x": (COUNT,)}))(np.ones(COUNT, np.float32))


@pytest.mark.parametrize("kind", ["RandomNormal", "RandomNormalLike"])
def test_normal_numbers(make_model: Any, kind: str) -> None:
    y = np.asarray(drawn(make_model, kind, mean=3.0, scale=2.0), np.float64)
    assert abs(y.mean() - 3) < SIGMAS * 2 / np.sqrt(COUNT)
    assert abs(y.std() - 2) < SIGMAS * 2 / np.sqrt(2 * COUNT)


@pytest.mark.parametrize("kind", ["RandomUniform", "RandomUniformLike"])
def test_uniform_numbers(make_model: Any, kind: str) -> None:
    y = np.asarray(drawn(make_model, kind, low=-1.0, high=3.0), np.float64)
    assert y.min() >= -1 and y.max() < 3
    assert abs(y.mean() - 1) < SIGMAS * (4 / np.sqrt(12)) / np.sqrt(COUNT)
    counts = np.histogram(y, 8, (-1, 3))[0]
    assert np.abs(counts - COUNT / 8).max() < SIGMAS * np.sqrt(COUNT / 8)


def test_a_file_draws_the_same_numbers_again(make_model: Any) -> None:
    first, again = (drawn(make_model, "RandomNormal") for _ in range(2))
    assert first.tolist() == again.tolist()


@pytest.mark.parametrize("change", [{"name": "other"}, {"seed": 2.0}, {"seed": -1.0}])
def test_nodes_and_seeds_draw_other_numbers(
    change: dict[str, Any], make_model: Any
) -> None:
    one, other = (drawn(make_model, "RandomNormal", **o) for o in ({}, change))
    assert abs(np.corrcoef(one, other)[0, 1]) < SIGMAS / np.sqrt(COUNT)


def test_a_seed_counts_and_not_the_name(make_model: Any) -> None:
    one, other = (
        drawn(make_model, "RandomNormal", seed=7.0, name=name) for name in ("a", "b")
    )
    assert one.tolist() == other.tolist()


def test_each_size_of_a_dynamic_input_has_its_numbers(make_model: Any) -> None:
    nodes = [node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])]
    model = load(make_model(nodes, {"x": ("n",)}))
    for count in (3, 5, 3):
        x = np.zeros(count, np.float32)
        assert model(x).shape == (count,) and model(x).tolist() == model(x).tolist()


def test_the_data_decides_how_many(make_model: Any) -> None:
    """The size of NonZero's result, as speech of unknown length has it."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        node("RandomNormalLike", ["numbers"], ["r"]),
        node("Add", ["r", "numbers"], ["y"]),
    ]
    model = load(make_model(nodes, {"x": (6,)}))
    assert model(np.array([1, 0, 1, 1, 0, 0], np.float32)).shape == (1, 3)
    assert model(np.array([0, 0, 1, 1, 0, 0], np.float32)).shape == (1, 2)


def test_bernoulli(make_model: Any) -> None:
    nodes = [node("Bernoulli", ["x"], ["y"], dtype=TensorProto.FLOAT)]
    model = load(make_model(nodes, {"x": (COUNT,)}))
    for chance in (0, 0.25, 1):
        y = np.asarray(model(np.full(COUNT, chance, np.float32)))
        apart = SIGMAS * np.sqrt(chance * (1 - chance) / COUNT)
        assert set(y.tolist()) <= {0, 1} and abs(y.mean() - chance) <= apart


def test_multinomial(make_model: Any) -> None:
    nodes = [
        node("Multinomial", ["x"], ["c"], sample_size=COUNT),
        node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    model = load(make_model(nodes, {"x": (2, 3)}))
    shares = np.array([[0.5, 0.2, 0.3], [0.05, 0.9, 0.05]])
    # Logarithms need not be of shares that add up to 1.
    y = np.asarray(model(np.log(shares * [[2], [7]]).astype(np.float32)))
    assert y.shape == (2, COUNT)
    for row, wanted in zip(y, shares, strict=True):
        found = np.bincount(row.astype(int), minlength=3) / COUNT
        assert np.abs(found - wanted).max() < SIGMAS / np.sqrt(COUNT)
