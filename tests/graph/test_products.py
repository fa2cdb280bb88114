"""Products of compiled functions and the loops that overwrite their results."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.graph.chained import Chained
from mdtensor.graph.plan import Plan
from mdtensor.kernels import observe
from mdtensor.kernels.numpy import matmul as kernel


def raw(x: Any) -> Any:
    return type(x), x.shape, np.asarray(x).tobytes()


def normal(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return md.from_numpy(np.asarray(values))


def repeat(function: Callable[..., Any], *given: Any, **options: Any) -> list[Any]:
    """Return the items of a function whose bytes, in four ways, are those of calls."""
    compiled = md.compile(function, **options)
    before = [raw(x) for x in given]
    wanted = raw(function(*given))
    for _ in range(3):
        assert raw(compiled(*given)) == wanted
    frozen = compiled.freeze(*given)
    assert [raw(frozen(*given)) for _ in range(2)] == [wanted] * 2
    assert raw(md.realize(function(*(x.to("lazy") for x in given)))) == wanted
    assert [raw(x) for x in given] == before
    (trace,) = compiled.traces
    return trace.items()


def steps(items: list[Any]) -> list[list[str]]:
    """Return the calls of each product that is one step with a loop."""
    return [
        [call.name for call in item.calls]
        for item in items
        if isinstance(item, Chained) and item.product is not None
    ]


# The row of zyx: add, matmul and relu are one kernel.
@pytest.mark.parametrize("size", [1, 16, 300, 1100])
def test_add_matmul_relu_is_one_step(size: int) -> None:
    given = normal(size, 64), normal(64, 33, seed=1), normal(33, seed=2)
    items = repeat(lambda x, w, b: md.relu(x @ w + b), *given)
    assert len(items) == 1 and steps(items) == [["matmul", "add", "relu"]]


def test_the_loop_is_the_only_kernel_that_runs() -> None:
    given = normal(40, 30), normal(30, 20, seed=1), normal(20, seed=2)
    frozen = md.compile(lambda x, w, b: md.relu(x @ w + b)).freeze(*given)
    with observe.observe_kernels() as seen:
        frozen(*given)
    assert sum(kernel.is_compiled for kernel in seen.kernels) == 1


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "linear": (lambda x, w: md.gelu(md.linear(x, w)), ["linear", "gelu"]),
    "relu": (lambda x, w: md.relu(md.matmul(x, w.mT)), ["matmul", "relu"]),
    "itself twice": (
        lambda x, w: (y := md.linear(x, w)) * md.sigmoid(y),
        ["linear", "sigmoid", "mul"],
    ),
    "softmax": (
        lambda x, w: (y := md.linear(x, w) * 0.5) - md.max(y, axis=-1, keepdims=True),
        ["linear", "mul", "max", "sub"],
    ),
    "two products": (
        lambda x, w: md.linear(x, w) + md.linear(x, w * 2),
        ["linear", "add"],
    ),
    "vectors": (lambda x, w: md.abs(md.matmul(x[0], w[0])), ["matmul", "abs"]),
    "tensordot": (
        lambda x, w: -md.tensordot(x, w, axes=((1,), (1,))),
        ["tensordot", "neg"],
    ),
}


@pytest.mark.parametrize("rows", [1, 7, 600])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_that_a_loop_overwrites(name: str, rows: int) -> None:
    function, calls = FUNCTIONS[name]
    assert steps(repeat(function, normal(rows, 24), normal(600, 24, seed=1))) == [calls]


@pytest.mark.compiled
def test_generated_loops_have_their_own_result() -> None:
    given = normal(80, 24), normal(90, 24, seed=1), normal(90, seed=2)
    items = repeat(
        lambda x, w, b: md.hardswish(md.linear(x, w, b) * 2), *given, generate=True
    )
    assert items[0].chain.text and len(items) == 1


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions(groups: int) -> None:
    x, w, b = normal(2, 4, 9, 8), normal(8, 4 // groups, 3, 3), normal(8)
    items = repeat(
        lambda x, w, b: md.relu(md.conv2d(x, w, b, padding=1, groups=groups)), x, w, b
    )
    assert steps(items) == [["conv2d", "relu"]]
    line, filters = normal(4, 4, 9), normal(8, 4 // groups, 3)
    items = repeat(lambda x, w: md.tanh(md.conv1d(x, w, groups=groups)), line, filters)
    assert steps(items) == [["conv1d", "tanh"]]


def test_products_that_others_read_stay_calls() -> None:
    x, w = normal(5, 6), normal(7, 6, seed=1)
    both = md.compile(lambda x, w: ((y := md.linear(x, w)), md.relu(y)))
    for _ in range(3):
        y, z = both(x, w)
        assert raw(y) == raw(md.linear(x, w)) and raw(z) == raw(md.relu(y))
    for function in (
        lambda x, w: md.reshape(y := md.linear(x, w), (7, 5)).mT + md.relu(y),
        lambda x, w: md.sum(y := md.linear(x, w)) + md.relu(y),
        lambda x, w: md.linear(x, w) + normal(3, 5, 7),
    ):
        assert steps(repeat(function, x, w)) == []


def test_results_do_not_share_memory() -> None:
    x, w = normal(300, 64), normal(1000, 64, seed=1)
    compiled = md.compile(lambda x, w: md.relu(md.linear(x, w)))
    kept = [compiled(x, w) for _ in range(4)]
    kept[0][:] = -1.0
    assert [raw(y) for y in kept[1:]] == [raw(md.relu(md.linear(x, w)))] * 3


def test_a_method_of_a_user_may_keep_its_result() -> None:
    kept = normal(5, 7)
    before = raw(kept)
    with md.registry.restored():

        @md.method(md.matmul)
        def matmul(x1: md.Float32Tensor, x2: md.Float32Tensor, /) -> Any:
            return kept

        items = repeat(lambda x, w: md.relu(x @ w), normal(5, 6), normal(6, 7))
        assert steps(items) == []
    assert raw(kept) == before


def test_an_error_of_the_product_names_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w = normal(5, 6), normal(6, 7, seed=1)
    compiled = md.compile(lambda x, w: md.relu(x @ w))
    for _ in range(3):
        compiled(x, w)

    def fail(*arguments: Any) -> Any:
        raise md.AllocationError("no memory for 140 bytes", "Free some")

    monkeypatch.setattr(kernel, "matmul", fail)
    with pytest.raises(md.AllocationError, match="140 bytes") as caught:
        compiled(x, w)
    assert "test_products.py:" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("left", "right", "constant"),
    [
        ((2, 5, 8), (8, 3), 0),
        ((2, 2, 5, 8), (8, 3), 0),
        ((1, 5, 8), (4, 8, 3), 0),
        ((4, 5, 8), (1, 8, 3), 1),
        ((5, 8), (8, 3), 1),
    ],
)
def test_products_with_stacked_constants_are_compiled(
    left: Any, right: Any, constant: int
) -> None:
    given = [np.asarray(normal(*left)), np.asarray(normal(*right, seed=1))]
    spec = md.TensorSpec(md.Float32Tensor, given[1 - constant].shape)
    constants = {"w": md.from_numpy(given[constant])}
    names = ("x", "w") if constant else ("w", "x")
    node = Node("y", md.matmul, names, "y")
    plan = Plan(Graph({"x": spec}, (node,), constants, ("y",)))
    with observe.observe_kernels() as seen:
        found = plan({"x": given[1 - constant]})["y"]
    assert all(kernel.is_compiled for kernel in seen.kernels)
    wanted = given[0].astype(np.float64) @ given[1]
    np.testing.assert_allclose(np.asarray(found), wanted, atol=1e-5)


def test_a_stack_for_each_matrix_stays_a_call() -> None:
    w, x = normal(2, 5, 8), normal(2, 8, 3, seed=1)
    spec = md.TensorSpec(md.Float32Tensor, (2, 8, 3))
    node = Node("y", md.matmul, ("w", "x"), "y")
    found = Plan(Graph({"x": spec}, (node,), {"w": w}, ("y",)))({"x": x})["y"]
    assert raw(found) == raw(w @ x)
