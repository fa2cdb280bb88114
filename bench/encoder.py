"""Float networks of two kinds: a transformer encoder, and dense 3x3 convolutions.

ONNX Runtime runs the same float file with its default optimizations.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.harness import Bench, Contender, Count, Promise, Race, Reason, Row
from bench.harness.agreement import Disagreement
from mdtensor import quant
from mdtensor.cli import demo
from mdtensor.kernels.cpu import isa

OURS, ORT = "mdtensor", "ORT"
OPSETS = [helper.make_opsetid("", 17)]
#: How far results may be apart, over the largest of them.
NEAR = 1e-4
TOKENS, WIDTH, HEADS, HIDDEN, LAYERS = 128, 384, 12, 1536, 6
#: Side of the image and channels of the layers of 3x3 that ResNet-18 has.
IMAGES = ((56, 64), (28, 128), (14, 256))
#: CPU time of one thread, or the time of several.
CLOCKS = {1: time.process_time, 2: time.perf_counter}
#: Layers of 3x3, one after the other, so that the copies at the ends count less.
DEPTH = 4
ENCODER = "encoder of 6 layers, {} thread(s)"


@dataclass
class Network:
    """A float ONNX file that is built node by node, and its inputs."""

    inputs: dict[str, np.ndarray]
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    rng: Any = field(default_factory=lambda: np.random.default_rng(15))

    def constant(self, name: str, value: Any) -> str:
        """Add a constant and return its name."""
        self.constants[name] = np.asarray(value)
        return name

    def add(self, kind: str, inputs: Sequence[str], name: str, **options: Any) -> str:
        """Add a node with one output and return its name."""
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **options))
        return name

    def weights(self, name: str, *shape: int, depth: int) -> str:
        """Add random weights for sums of `depth` products."""
        given = self.rng.standard_normal(shape, np.float32) / np.float32(depth**0.5)
        return self.constant(name, given)

    def file(self, output: str) -> bytes:
        """Return the file with this output."""
        kind = TensorProto.FLOAT
        graph = helper.make_graph(
            self.nodes,
            "one",
            [helper.make_tensor_value_info(n, kind, x.shape)
             for n, x in self.inputs.items()],
            [helper.make_tensor_value_info(output, kind, None)],
            [numpy_helper.from_array(v, n) for n, v in self.constants.items()],
        )  # fmt: skip
        made = helper.make_model(graph, opset_imports=OPSETS, ir_version=10)
        return bytes(onnx.shape_inference.infer_shapes(made).SerializeToString())


def encoder() -> tuple[Network, str]:
    """Return an encoder with a mask that is added to the scores, and its output."""
    rng = np.random.default_rng(3)
    mask = np.where(np.arange(TOKENS) < TOKENS - 9, 0, -1e4).astype(np.float32)
    x = rng.standard_normal((1, TOKENS, WIDTH), np.float32)
    network = Network({"x": x, "mask": mask.reshape(1, 1, 1, TOKENS)})
    network.constant("split", np.array([1, TOKENS, HEADS, WIDTH // HEADS]))
    network.constant("join", np.array([1, TOKENS, WIDTH]))
    network.constant("root", np.float32((WIDTH // HEADS) ** 0.5))
    for name, value in (("two", 2**0.5), ("one", 1), ("half", 0.5)):
        network.constant(name, np.float32(value))
    value = "x"
    for layer in range(LAYERS):
        value = _layer(network, f"l{layer}", value)
    return network, value


def _layer(network: Network, name: str, x: str) -> str:
    """Add one layer and return its result."""
    add = network.add
    parts = {}
    for part in "qkv":
        given = _linear(network, f"{name}{part}", x, WIDTH, WIDTH)
        rows = add("Reshape", [given, "split"], f"{given}.rows")
        order = [0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]
        parts[part] = add("Transpose", [rows], f"{given}.heads", perm=order)
    scores = add("MatMul", [parts["q"], parts["k"]], f"{name}.scores")
    scaled = add("Div", [scores, "root"], f"{name}.scaled")
    masked = add("Add", [scaled, "mask"], f"{name}.masked")
    shares = add("Softmax", [masked], f"{name}.shares", axis=-1)
    mixed = add("MatMul", [shares, parts["v"]], f"{name}.mixed")
    turned = add("Transpose", [mixed], f"{name}.turned", perm=[0, 2, 1, 3])
    joined = add("Reshape", [turned, "join"], f"{name}.joined")
    out = _linear(network, f"{name}o", joined, WIDTH, WIDTH)
    x = _norm(network, f"{name}n", add("Add", [out, x], f"{name}.sum"))
    wide = _linear(network, f"{name}f", x, WIDTH, HIDDEN)
    narrow = _linear(network, f"{name}g", _gelu(network, wide), HIDDEN, WIDTH)
    return _norm(network, f"{name}m", add("Add", [narrow, x], f"{name}.end"))


def _linear(network: Network, name: str, x: str, k: int, n: int) -> str:
    w = network.weights(f"{name}.w", k, n, depth=k)
    b = network.weights(f"{name}.b", n, depth=100)
    return network.add("Add", [network.add("MatMul", [x, w], f"{name}.p"), b], name)


def _norm(network: Network, name: str, x: str) -> str:
    scale = network.constant(f"{name}.s", np.full(WIDTH, 1.1, np.float32))
    bias = network.weights(f"{name}.b", WIDTH, depth=100)
    return network.add("LayerNormalization", [x, scale, bias], name, epsilon=1e-5)


def _gelu(network: Network, x: str) -> str:
    """Add a gelu as PyTorch exports it, written with erf."""
    add = network.add
    curve = add("Erf", [add("Div", [x, "two"], f"{x}.d")], f"{x}.e")
    share = add("Mul", [x, add("Add", [curve, "one"], f"{x}.a")], f"{x}.m")
    return add("Mul", [share, "half"], f"{x}.h")


def convolutions(side: int, channels: int) -> tuple[Network, str]:
    """Return `DEPTH` layers of 3x3 with relu, and the output."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, channels, side, side), np.float32)
    network, value = Network({"x": x}), "x"
    for layer in range(DEPTH):
        shape = channels, channels, 3, 3
        w = network.weights(f"w{layer}", *shape, depth=9 * channels)
        b = network.weights(f"b{layer}", channels, depth=100)
        value = network.add("Conv", [value, w, b], f"c{layer}", pads=[1] * 4)
        value = network.add("Relu", [value], f"r{layer}")
    return network, value


def contenders(make: Callable[[], Any], threads: int) -> list[Contender]:
    """Return ours and ONNX Runtime on these threads."""
    network, output = make()
    file = network.file(output)
    model = quant.load(onnx.load_from_string(file))
    session = demo.start_session(file, threads)

    def ours() -> Any:
        with quant.threads(threads):
            return model(network.inputs)

    return [
        Contender(OURS, ours),
        Contender(ORT, lambda: session.run(None, network.inputs)[0]),
    ]


def is_near(results: Mapping[str, Any]) -> None:
    """Raise if the results differ by more than rounding."""
    wanted, found = np.asarray(results[ORT]), np.asarray(results[OURS])
    off = abs(found - wanted).max() / abs(wanted).max()
    if not off <= NEAR:
        raise Disagreement(f"results differ by {off:.1e} of the largest")


def calls() -> dict[str, float]:
    """Return how many nodes of the encoder are not steps; 0 is wanted."""
    network, output = encoder()
    model = quant.load(onnx.load_from_string(network.file(output)))
    kernels = Counter(node.isa for node in model.plan().nodes)
    return {OURS: float(kernels["numpy"])}


def convolution(side: int, channels: int) -> str:
    """Return the name of a row."""
    return f"3x3, {side}x{side}x{channels}"


def rows(quick: bool) -> Iterator[Row]:
    """Make a race of each network."""
    table = "Float networks"
    for threads in (1, 2):
        make = partial(contenders, encoder, threads)
        name = ENCODER.format(threads)
        yield Race(name, make, is_near, table, threads=threads, clock=CLOCKS[threads])
    yield Count("encoder, nodes that are not steps", calls, "nodes", table)
    for shape in IMAGES:
        make = partial(contenders, partial(convolutions, *shape), 1)
        yield Race(convolution(*shape), make, is_near, table)


BENCH = Bench(
    f"An encoder and dense convolutions in float, ISA {isa.ISA}",
    rows,
    rounds=25,
    promises=[
        Promise(
            f"{name}, relative to ONNX Runtime",
            limit,
            lambda found, name=name: found.ratio(name, ORT),
        )
        for name, limit in (
            (ENCODER.format(1), 0.92),
            (ENCODER.format(2), 1.0),
            *((convolution(*shape), 1.05) for shape in IMAGES),
        )
    ],
    reasons=[
        Reason("images are copied to channels last and back", "3x3, *", ORT),
    ],
    notes=f"""The encoder has {LAYERS} layers for {TOKENS} tokens of {WIDTH} numbers,
with {HEADS} heads, {HIDDEN} hidden numbers, gelu and layer norms; random weights. A row
of convolutions is {DEPTH} layers one after the other. Each contender is called with
arrays and returns a new one.""",
)
