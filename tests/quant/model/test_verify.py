"""The comparison with ONNX Runtime: equal where it is, and it finds what is not."""

import sys
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import ModelError
from mdtensor.graph import Graph, Node
from mdtensor.quant import QParams, quantize, quint8
from mdtensor.quant.model.run.verify import NEAR_TIE, NodeCheck, ties, verify

SPEC = md.TensorSpec(md.Float32Tensor, (2, 3))
GRID = QParams(0.5, 10, dtype=quint8)


def test_the_classifier_node_by_node(small_graph: Graph, crops: Any) -> None:
    """Every quantized node equal, or one code off in 0.1 %, each near a tie."""
    samples = [{"x": crop.pixels} for crop in crops[1][::4]]
    found = verify(small_graph, samples)
    quantized = [name for name, s in small_graph.specs().items() if s.qparams]
    weights = set(small_graph.constants)
    assert len(found) == len(set(quantized) - weights) > 100
    assert [check for check in found if not check.holds] == []
    different = sum(check.different for check in found)
    assert different <= 1e-4 * sum(check.elements for check in found)


def test_a_wrong_operation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime gets relu where we compute a sigmoid."""
    from mdtensor.quant.model.onnx import write_operators

    monkeypatch.setitem(write_operators.SAME, md.sigmoid, "Relu")
    made = Graph(
        {"x": SPEC},
        (
            Node("q", quantize, ("x",), "q", {"qparams": GRID}),
            Node("s", md.sigmoid, ("q",), "y", {"out": QParams(1 / 256, dtype=quint8)}),
        ),
        {},
        ("y",),
    )
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    first, second = verify(made, [{"x": x}])
    assert first.holds
    assert not second.holds
    assert second.largest > 1
    assert second.unexplained > 0


def test_distance_from_a_tie() -> None:
    node = Node("q", quantize, ("x",), "y", {"qparams": GRID})
    x = md.asarray(np.array([0.25, 0.3, 0.5], np.float32))
    values = {"x": x, "y": quantize(x, GRID)}
    np.testing.assert_allclose(ties(node, values), [0.0, 0.1, 0.5], atol=1e-6)


@pytest.mark.parametrize(
    ("different", "largest", "unexplained", "holds"),
    [
        (0, 0, 0, True),
        (1, 1, 0, True),
        (2, 1, 0, False),
        (1, 2, 0, False),
        (1, 1, 1, False),
    ],
)
def test_what_holds(
    different: int, largest: int, unexplained: int, holds: bool
) -> None:
    check = NodeCheck("n", "add", 1000, different, largest, unexplained, NEAR_TIE / 2)
    assert check.holds is holds
    assert ("equal" in str(check)) is (different == 0)
    assert ("half to even" in str(check)) is (different > 0)


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    node = Node("q", quantize, ("x",), "y", {"qparams": GRID})
    made = Graph({"x": SPEC}, (node,), {}, ("y",))
    with pytest.raises(ModelError, match="needs the package onnxruntime"):
        verify(made, [{"x": np.zeros((2, 3), np.float32)}])
