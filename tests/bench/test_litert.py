"""The .tflite file of a quantized network means what the network means."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tiny_network import images, network, quantized

from bench import mobilenet
from bench.inference.networks import for_shape
from mdtensor.quant.model.model import Model

litert = pytest.importorskip(
    "bench.rivals.litert", reason="needs ai-edge-litert and tflite"
)
pytest.importorskip("ai_edge_litert", reason="needs ai-edge-litert")


def every_operation() -> tuple[mobilenet.Network, str]:
    """All that is written, with padding of all kinds."""
    net = mobilenet.Network()
    x = net.append("HardSwish", [net.conv("x", (3, 8), 3, stride=2, is_clipped=False)])
    y = net.conv(x, (8, 8), 3, groups=8)
    gate = net.append("GlobalAveragePool", [y])
    gate = net.append("HardSigmoid", [net.conv(gate, (8, 8), is_clipped=False)])
    x = net.append("Add", (x, net.append("Mul", (y, gate))))
    x = net.append("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = net.conv(x, (8, 8), 5, stride=2, groups=8)
    x = net.append("Flatten", [net.append("GlobalAveragePool", [x])])
    weight, bias = np.random.default_rng(3).normal(size=(5, 8)), np.arange(5)
    ends = net.constant(weight), net.constant(bias)
    return net, net.append("Gemm", (x, *ends), transB=1)


def run(small: Model, given: Any, threads: int = 1) -> Any:
    """What LiteRT gives for these images."""
    session = litert.Session(
        litert.written(for_shape(small, given.shape).graph), threads
    )
    return session(np.ascontiguousarray(given.transpose(0, 2, 3, 1)))


@pytest.mark.parametrize(("count", "threads"), [(1, 1), (1, 2), (3, 1)])
def test_both_give_the_same_numbers(count: int, threads: int, tmp_path: Path) -> None:
    """Within two steps: LiteRT's hard-swish and mean round more than once."""
    small = quantized(network(*every_operation(), tmp_path))
    step = float(small.graph.specs()[small.graph.nodes[-1].inputs[0]].qparams.scale)
    for seed in range(2, 8):
        given = images(count, seed)
        ours, theirs = np.asarray(small(given)), run(small, given, threads)
        assert np.ptp(ours) > 20 * step
        assert np.abs(ours - theirs).max() <= 2 * step


def test_probabilities_are_written(tmp_path: Path) -> None:
    net, x = every_operation()
    small = quantized(network(net, net.append("Softmax", [x]), tmp_path))
    theirs = run(small, images(1, 2))
    np.testing.assert_allclose(theirs, np.asarray(small(images(1, 2))), atol=0.05)
    assert abs(theirs.sum() - 1) < 1e-5


def test_what_the_format_lacks_is_named(tmp_path: Path) -> None:
    net = mobilenet.Network()
    x = net.conv(net.conv("x", (3, 8)), (8, 8), 3, groups=2)
    small = quantized(network(net, x, tmp_path))
    with pytest.raises(litert.NotWritten, match="grouped convolution 'conv2' has no"):
        litert.written(small.graph)
