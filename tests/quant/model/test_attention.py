"""Attention and other codes of four axes in rows: compiled, with the eager bytes."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.graph import Graph, Node
from mdtensor.kernels.cpu.program.attention import MOST_DEPTH
from mdtensor.quant import QParams, qint4, qint8, quint8
from mdtensor.quant.model import Model
from mdtensor.quant.ops.activation import _softmax
from mdtensor.quant.ops.matmul import _matmul_by_integers, matmul_step
from mdtensor.quant.tensor import quantized

F32 = md.Float32Tensor


def attention(rng, length=6, heads=2, depth=5, tail=()):
    """Return self-attention, with `tail` behind it, from x to y."""
    width = heads * depth
    nodes, known = [], {"factor": md.asarray(np.float32(depth**-0.5))}
    for name in "qkv":
        known[f"w{name}"] = md.asarray(rng.standard_normal((width, width), np.float32))
        order = (0, 2, 3, 1) if name == "k" else (0, 2, 1, 3)
        split = {"shape": (1, length, heads, depth)}
        nodes += [
            Node(f"{name}0", md.linear, ("x", f"w{name}", None), f"{name}0"),
            Node(f"{name}1", md.reshape, (f"{name}0",), f"{name}1", split),
            Node(name, md.permute_dims, (f"{name}1",), name, {"axes": order}),
        ]
    nodes += [
        Node("s", md.matmul, ("q", "k"), "s"),
        Node("t", md.mul, ("s", "factor"), "t"),
        Node("p", md.softmax, ("t",), "p", {"axis": -1}),
        Node("o", md.matmul, ("p", "v"), "o"),
        *(tail or [Node("y", md.permute_dims, ("o",), "y", {"axes": (0, 2, 1, 3)})]),
    ]
    used = {name for node in nodes for name in node.values}
    known = {name: value for name, value in known.items() if name in used}
    spec = md.TensorSpec(F32, (1, length, width))
    return Model(Graph({"x": spec}, tuple(nodes), known, ("y",)))


def assert_same(small, x):
    """Raise unless the plan has the bytes of the calls one by one."""
    wanted = {"x": md.asarray(x), **small.graph.constants}
    for node in small.graph.nodes:
        given = [wanted[v] if isinstance(v, str) else v for v in node.inputs]
        wanted[node.output] = node.operation(*given, **node.options)
    for name, value in small.plan().values(x).items():
        assert value.shape == wanted[name].shape, name
        assert value.buffer.tobytes() == wanted[name].buffer.tobytes(), name


@pytest.mark.parametrize("sizes", [(6, 2, 5), (1, 1, 1), (9, 3, 8)])
def test_attention_is_one_compiled_part(sizes, rng):
    model = attention(rng, *sizes)
    x = rng.standard_normal((1, sizes[0], sizes[1] * sizes[2]), np.float32)
    small = model.quantize(model.calibrate([x]))
    assert {node.why for node in small.plan().nodes} == {""}
    assert_same(small, x)
    with quant.threads(2):
        assert np.array_equal(np.asarray(small(x)), np.asarray(small.plan()(x)["y"]))


def test_images_behind_attention_are_copied(rng):
    pool = {"kernel_size": 2, "stride": 1}
    tail = (
        Node("z", md.max_pool2d, ("o",), "z", pool),
        Node("y", md.matmul, ("z", "z2"), "y"),
    )
    turn = Node("z2", md.permute_dims, ("z",), "z2", {"axes": (0, 1, 3, 2)})
    model = attention(rng, tail=(tail[0], turn, tail[1]))
    x = rng.standard_normal((1, 6, 10), np.float32)
    small = model.quantize(model.calibrate([x]))
    assert {node.why for node in small.plan().nodes} == {""}
    assert_same(small, x)


def test_a_softmax_with_another_reader_stays_float(rng):
    tail = (Node("y", md.add, ("o", "v"), "y"),)
    model = attention(rng, tail=tail)
    model = Model(Graph(**{**vars(model.graph), "outputs": ("y", "p")}))
    x = rng.standard_normal((1, 6, 10), np.float32)
    small = model.quantize(model.calibrate([x]))
    assert small.graph.notes["p"] == "probabilities stay float"
    kept = attention(rng)
    kept = kept.quantize(kept.calibrate([x]), keep_float=["o"])
    assert kept.graph.notes["p"] == "probabilities stay float"


def drawn(rng, dtype, shape):
    """Return codes of any value on a grid with any zero point."""
    zero = int(rng.integers(dtype.minimum, dtype.maximum + 1))
    codes = rng.integers(dtype.minimum, dtype.maximum + 1, shape)
    scale = float(np.float32(rng.uniform(0.001, 0.1)))
    return quantized(codes.astype(dtype.storage), QParams(scale, zero, dtype=dtype))


@pytest.mark.parametrize("dtypes", [(quint8, quint8), (qint8, quint8), (qint4, qint8)])
def test_products_of_activations_have_the_bytes_of_integers(dtypes, rng):
    for x1, x2 in [((3, 7), (7, 5)), ((2, 1, 4, 9), (3, 9, 2)), ((2, 0, 3), (3, 4))]:
        a, b = (drawn(rng, *each) for each in zip(dtypes, (x1, x2), strict=True))
        out = QParams(float(np.float32(0.37)), 3, dtype=dtypes[1])
        want = _matmul_by_integers(a, b, out)
        assert np.array_equal(md.matmul(a, b, out=out).codes, want.codes)


def test_softmax_has_the_bytes_of_decimals(rng):
    for dtype in (quint8, qint8):
        x, out = drawn(rng, dtype, (3, 2, 40)), QParams(1 / 256, dtype=quint8)
        want = _softmax(x, 2, x.qparams, out)
        assert np.array_equal(md.softmax(x, axis=-1, out=out).codes, want.codes)


def test_what_no_step_computes_says_why():
    grid, long = QParams(0.1, 3, dtype=quint8), MOST_DEPTH + 1
    a, b = (md.TensorSpec(quant.QUInt8Tensor, s, grid) for s in ((1, long), (long, 1)))
    with pytest.raises(md.OptionError, match="products, int32 holds"):
        matmul_step(a, b, out=grid)
    with pytest.raises(md.OptionError, match="round exactly, not by 'onnx'"):
        matmul_step(a, b, out=grid.rounded("onnx"))
    with pytest.raises(md.OptionError, match="matrices, not vectors"):
        matmul_step(a, md.TensorSpec(quant.QUInt8Tensor, (long,), grid), out=grid)
