"""Graphs of calls on few elements of any type, drawn at random."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

import mdtensor as md
from mdtensor.errors import MdtensorError
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Model

WORDS, UNITS, LENGTH = 500, 16, 7
SHAPE = (3, 4)
INPUTS = {
    "f": np.float32,
    "d": np.float64,
    "i": np.int64,
    "j": np.int32,
    "b": np.bool_,
}
#: Operations by the types of values that they read, as keys of `INPUTS`.
CALLS: list[tuple[str, Any, dict[str, Any]]] = [
    *(
        (kinds, one, {})
        for kinds in ("ff", "dd", "ii", "jj")
        for one in (md.add, md.mul)
    ),
    *((kinds, md.sub, {}) for kinds in ("dd", "ii", "jj")),
    *((kinds, one, {}) for kinds in ("dd", "ii", "ff") for one in (md.less, md.equal)),
    *((kinds, one, {}) for kinds in ("ii", "jj") for one in (md.minimum, md.maximum)),
    *(("bb", one, {}) for one in (md.logical_and, md.logical_or, md.logical_xor)),
    *((kind, one, {}) for kind in "dij" for one in (md.neg, md.abs, md.sign)),
    *((kinds, md.where, {}) for kinds in ("bff", "bdd", "bii", "bjj")),
    *((kind, md.argsort, {"axis": axis}) for kind in "fdi" for axis in (0, 1)),
    *((kind, md.argmax, {"axis": 1, "keepdims": True}) for kind in "fdib"),
    *((kind, md.cumulative_sum, {"axis": 1}) for kind in "fdi"),
    *((kind, md.sum, {"axis": 1, "keepdims": True}) for kind in "di"),
    *((kind, md.permute_dims, {"axes": (1, 0)}) for kind in "fdib"),
    *((kind, md.flip, {"axis": 0}) for kind in "di"),
    *((kind, md.tril, {}) for kind in "fd"),
    *((kind, md.getitem, {"key": (slice(None), slice(2, None))}) for kind in "fdijb"),
    *((kind * 3, md.concat, {"axis": 1}) for kind in "fdib"),
    *((kind * 2, md.stack, {"axis": 0}) for kind in "di"),
    *(("b", one, {"axis": 0}) for one in (md.any, md.all)),
    *(("i", md.clip, {"min": low, "max": 2}) for low in (-2, 2)),
    *((kind, md.isnan, {}) for kind in "fd"),
    ("d", md.sqrt, {}),
    ("b", md.logical_not, {}),
    ("di", md.take, {"axis": 0}),
    ("ii", md.take_along_axis, {"axis": 1}),
    ("did", md.scatter, {"axis": 1, "reduction": "add"}),
    ("iii", md.scatter, {"axis": 0}),
]
CASTS = ((md.float32, "saturate"), (md.int64, "saturate"), (md.float64, "wrap"))


def drawn(data: Any) -> Graph:
    """Return a graph of calls, each of which reads values that it takes."""
    specs = {
        n: md.TensorSpec(type(md.asarray(kind(0))), SHAPE) for n, kind in INPUTS.items()
    }
    graph = Graph(specs, (), {}, ())
    nodes: list[Node] = []
    for place in range(data.draw(st.integers(2, 9))):
        known = Graph(specs, tuple(nodes), {}, ()).specs()
        kinds, operation, options = data.draw(st.sampled_from(CALLS))
        fitting = [[n for n, s in known.items() if fits(s, kind)] for kind in kinds]
        names = tuple(data.draw(st.sampled_from(some)) for some in fitting)
        node = Node(f"n{place}", operation, names, f"n{place}", options)
        if data.draw(st.integers(0, 4)) == 0:
            dtype, casting = data.draw(st.sampled_from(CASTS))
            options = {"casting": casting}
            node = Node(f"n{place}", md.astype, (names[0], dtype), f"n{place}", options)
        try:
            Graph(specs, (*nodes, node), {}, ()).specs()
        except MdtensorError:
            continue
        nodes.append(node)
    names = [node.output for node in nodes]
    outputs = (
        data.draw(st.lists(st.sampled_from(names), min_size=1)) if names else ["f"]
    )
    graph = Graph(specs, tuple(nodes), {}, (*dict.fromkeys([*outputs, *names[-1:]]),))
    return graph.pruned()


def fits(spec: md.TensorSpec, kind: str) -> bool:
    return spec.dtype.storage == INPUTS[kind] and len(spec.shape) > 1


def fed(data: Any, graph: Graph) -> dict[str, Any]:
    """Return a tensor for each input, with some special numbers."""
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    feeds = {
        name: md.asarray(rng.integers(-2, 3, SHAPE).astype(INPUTS[name]))
        for name in graph.inputs
    }
    for name in "fd":
        if name in feeds and data.draw(st.booleans()):
            feeds[name].buffer[0, :3] = np.nan, np.inf, -0.0
    return feeds


def require_same(wanted: Any, found: Any) -> None:
    """Require two arrays to have the same type, shape, numbers and signs of zeros."""
    a, b = np.asarray(wanted), np.asarray(found)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(a, b)
    is_number = np.isfinite(a) if a.dtype.kind == "f" else np.ones(a.shape, bool)
    assert np.array_equal(
        np.signbit(a[is_number] * 1.0), np.signbit(b[is_number] * 1.0)
    )


def words(rng: np.random.Generator, count: int = 2) -> Any:
    """Indices of words, of which 0 ends a sentence."""
    found = rng.integers(1, WORDS, (count, LENGTH))
    found[:, -2:] = 0
    return found


def tagger(rng: np.random.Generator) -> Model:
    """A network of words: a table, a layer, a mean without the ends, and a choice."""
    arrays = {"table": (WORDS, UNITS), "w": (UNITS, UNITS), "v": (3, UNITS)}
    constants = {
        name: md.asarray(rng.standard_normal(shape).astype(np.float32))
        for name, shape in arrays.items()
    }
    nodes = (
        Node("found", md.take, ("table", "ids"), "found", {"axis": 0}),
        Node("layer", md.linear, ("found", "w", None), "layer"),
        Node("relu", md.relu, ("layer",), "relu"),
        Node("is_word", md.not_equal, ("ids", 0), "is_word"),
        Node("mask", md.expand_dims, ("is_word",), "mask", {"axis": -1}),
        Node("kept", md.where, ("mask", "relu", 0.0), "kept"),
        Node("mean", md.mean, ("kept",), "mean", {"axis": (1,)}),
        Node("scores", md.linear, ("mean", "v", None), "scores"),
        Node("best", md.argmax, ("scores",), "best", {"axis": -1}),
    )
    ids = md.TensorSpec(md.Int64Tensor, (2, LENGTH))
    return Model(Graph({"ids": ids}, nodes, constants, ("scores", "best", "is_word")))
