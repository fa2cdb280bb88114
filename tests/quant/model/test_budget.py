"""Budgets of loading: small files that ask for too much are refused at once."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from mdtensor import quant
from mdtensor.errors import ModelError, OptionError
from mdtensor.quant.model.budget import TIMES, Budget, Spending
from mdtensor.quant.model.load import load

INTS = np.int64
SIDE = 200_000
MANY = INTS([SIDE, SIDE])

# Operators whose result, or whose places, a file of 150 bytes makes huge.
HUGE: dict[str, tuple[list[str], dict[str, Any], dict[str, Any]]] = {
    "ConstantOfShape": (["s"], {"s": MANY}, {}),
    "Expand": (["w", "s"], {"w": np.float32([1]), "s": MANY}, {}),
    "EyeLike": (["x"], {}, {"x": (SIDE, SIDE)}),
    "OneHot": (
        ["i", "d", "v"],
        {"i": INTS([0, 1]), "d": INTS([10**11]), "v": np.float32([0, 1])},
        {},
    ),
    "Range": (["a", "b", "c"], {"a": INTS(0), "b": INTS(10**11), "c": INTS(1)}, {}),
    "Tile": (["w", "s"], {"w": np.ones((1, 1), np.float32), "s": MANY}, {}),
    "Hardmax": (["x"], {}, {"x": (1, 10**11)}),
    "Resize": (
        ["x", "", "", "s"],
        {"s": INTS([1, 1, 4, 2**31])},
        {"x": (1, 1, 4, 4)},
    ),
}


@pytest.mark.parametrize("kind", HUGE)
def test_too_many_elements(kind: str, make_model: Any) -> None:
    names, constants, inputs = HUGE[kind]
    node = helper.make_node(kind, names, ["y"])
    path = make_model([node], inputs or {"z": (1,)}, constants)
    with pytest.raises(ModelError, match=r"'y' computes [\d,]+ elements.*budget="):
        load(path)


def test_a_product_of_indices(make_model: Any) -> None:
    """Each input is small; their outer sum is not."""
    shapes = {"a": INTS([[0]] * 40_000), "b": INTS([0] * 40_000)}
    path = make_model([helper.make_node("Add", ["a", "b"], ["y"])], {"z": (1,)}, shapes)
    with pytest.raises(ModelError, match="Add 'y' computes 1,600,000,000 elements"):
        load(path)


def test_results_count_together(make_model: Any) -> None:
    """A tensor that doubles twenty times, from a file of 1 KB."""
    nodes = [
        helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0)
        for i in range(40)
    ]
    path = make_model(nodes, {"x": (1,)}, {"v0": np.ones(1, np.float32)}, ("v40",))
    with pytest.raises(ModelError, match="elements while the model is loaded"):
        load(path)


def test_the_budget_is_an_option(make_model: Any) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    path = make_model(nodes, {"x": (100,)}, {"s": INTS([100])})
    elements = 100 - TIMES  # the shape in the file counts, too
    assert load(path, budget=quant.Budget(elements=elements)).inputs
    with pytest.raises(ModelError) as raised:
        load(path, budget=quant.Budget(elements=elements - 1))
    assert str(raised.value) == (
        "ConstantOfShape 'c' computes 100 elements while the model is loaded, 100 "
        "together with earlier constants; the limit is 99. If you trust the "
        "file, allow more elements in budget=."
    )


def test_nodes_and_seconds(make_model: Any) -> None:
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(9)]
    path = make_model(nodes, {"v0": (1,)}, {}, ("v9",))
    assert load(path, budget=Budget(nodes=9)).inputs
    with pytest.raises(
        ModelError, match=r"node 'v9' makes more than 8 nodes.*more nodes in"
    ):
        load(path, budget=Budget(nodes=8))
    with pytest.raises(ModelError, match=r"takes more than 1e-09 s, at .*more seconds"):
        load(path, budget=Budget(seconds=1e-9))


@pytest.mark.parametrize("limit", ["elements", "nodes", "seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "many", None])
def test_limits_are_positive_numbers(limit: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"the budget has {limit}="):
        Budget(**{limit: value})


def test_constants_of_the_file_raise_the_limit() -> None:
    spending = Spending(Budget(elements=10))
    spending.add_stored(2)
    spending.add_computed("a", 10 + 2 * TIMES)
    with pytest.raises(ModelError, match="b computes 1 elements"):
        spending.add_computed("b", 1)


@pytest.mark.slow
def test_load_is_linear_in_nodes(make_model: Any) -> None:
    """Twice as many nodes take at most three times as long, all of one name too."""
    from time import process_time

    def seconds(count: int) -> float:
        nodes = [
            helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], "same")
            for i in range(count)
        ]
        path = make_model(nodes, {"v0": (2,)}, {}, (f"v{count}",))
        start = process_time()
        load(path)
        return process_time() - start

    seconds(100)
    assert seconds(20_000) < 3 * seconds(10_000)
