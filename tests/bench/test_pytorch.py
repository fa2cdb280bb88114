"""PyTorch runs our graphs as they are meant."""

from pathlib import Path

import numpy as np
import pytest
from support.tiny_network import images, network, quantized

from bench import mobilenet
from mdtensor.quant.model.model import Model

pytorch = pytest.importorskip("bench.rivals.pytorch", reason="needs PyTorch")


@pytest.fixture
def floating(tmp_path: Path) -> Model:
    """What MobileNetV2 is made of, and a hard swish."""
    net = mobilenet.Network()
    x = net.block(net.conv("x", (3, 8), 3, stride=2), 8, 8, 2, 1)
    x = net.append("HardSwish", [x])
    x = net.append("Flatten", [net.append("GlobalAveragePool", [x])])
    weight, bias = np.random.default_rng(3).normal(size=(5, 8)), np.arange(5)
    ends = net.constant(weight), net.constant(bias)
    return network(net, net.append("Gemm", (x, *ends), transB=1), tmp_path)


def test_floats_are_added_in_another_order_alone(floating: Model) -> None:
    ours = np.asarray(floating(images(2, 5)))
    theirs = pytorch.Session(floating.graph, 1)(images(2, 5))
    np.testing.assert_allclose(theirs, ours, atol=1e-5 * np.abs(ours).max())


def test_codes_are_near_ours(floating: Model) -> None:
    """Its products of codes saturate on a CPU without the 8-bit dot product."""
    small = quantized(floating)
    ours = np.asarray(small(images(2, 5)))
    theirs = pytorch.Session(small.graph, 1)(images(2, 5))
    assert np.abs(theirs - ours).max() <= 0.2 * np.abs(ours).max()


def test_what_it_has_no_function_for_is_named(tmp_path: Path) -> None:
    net = mobilenet.Network()
    gate = net.append("HardSigmoid", [net.conv("x", (3, 8), is_clipped=False)])
    small = quantized(network(net, gate, tmp_path))
    with pytest.raises(pytorch.NotRun, match="no function for hardsigmoid of codes"):
        pytorch.Session(small.graph, 1)
