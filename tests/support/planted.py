"""Chains of layers with one bad layer, whose place a comparison must find."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor.graph import Graph, Node
from mdtensor.quant.model import Calibration, Model
from mdtensor.quant.observers import MinMaxObserver

CHANNELS, SIZE = 8, 6
#: The layers of a chain; the first and the last one are never bad.
LAYERS = 5
#: What makes a channel so large that the others share few codes.
LARGE = 300.0

Change = Callable[[dict[str, Any], int], None]


def chain(seed: int, change: Change | None = None, at: int = 2) -> Model:
    """Return convolutions of 1 x 1 with relus; `change` edits the weights of one."""
    rng = np.random.default_rng(seed)
    shape = (CHANNELS, CHANNELS, 1, 1)
    weights = {f"w{i}": rng.normal(0, 0.5, shape) for i in range(LAYERS)}
    if change is not None:
        change(weights, at)
    nodes: list[Node] = []
    value = "x"
    for i in range(LAYERS):
        nodes.append(Node(f"conv{i}", md.conv2d, (value, f"w{i}", None), f"c{i}"))
        nodes.append(Node(f"relu{i}", md.relu, (f"c{i}",), f"r{i}"))
        value = f"r{i}"
    constants = {n: md.asarray(w.astype(np.float32)) for n, w in weights.items()}
    spec = md.TensorSpec(md.Float32Tensor, (1, CHANNELS, SIZE, SIZE))
    return Model(Graph({"x": spec}, tuple(nodes), constants, (value,)))


def images(count: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    size = (count, 1, CHANNELS, SIZE, SIZE)
    return list(rng.normal(size=size).astype(np.float32))


def outlier_channel(weights: dict[str, Any], at: int) -> None:
    """Make a channel large that the next layer hardly reads."""
    # Positive weights after a relu: the channel is not cut off.
    weights[f"w{at}"][3] = abs(weights[f"w{at}"][3]) * LARGE
    weights[f"w{at + 1}"][:, 3] /= LARGE**2


def narrowed(seen: Calibration, value: str, share: float = 0.1) -> Calibration:
    """Return a calibration that saw only a part of a value's range."""
    low, high = seen.range(value)
    narrow = MinMaxObserver()
    narrow.observe(np.array([low * share, high * share]))
    return replace(seen, observers={**seen.observers, value: narrow})
