"""Lazy tensors of a device: recorded calls are joined into launches when they run."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support import rendered_device

import mdtensor as md
from mdtensor.graph import known
from mdtensor.graph.calls import pending

gpu: Any = rendered_device.chosen()
WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
X = np.random.default_rng(0).normal(size=(5, 70)).astype(np.float32)


@pytest.fixture(autouse=True)
def joined_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known._KNOWN.clear()
    monkeypatch.setattr(known, "JOINING", 0.0)
    monkeypatch.setattr(known, "LOADING", 0.0)
    yield
    known._KNOWN.clear()


def ten(x: Any) -> Any:
    """Ten elementwise calls."""
    y = md.relu(x * 1.5 + x) - md.exp(x)
    return md.tanh(md.maximum(md.abs(y), 0.25) / 3.0) * x


def layer_norm(x: Any) -> Any:
    centred = x - md.mean(x, axis=-1, keepdims=True)
    var = md.mean(centred * centred, axis=-1, keepdims=True)
    return centred / md.sqrt(var + 1e-5)


ONE: dict[str, Callable[..., Any]] = {
    "chain of 10": ten,
    "softmax": lambda x: md.softmax(x * 0.5),
    "layer norm": layer_norm,
    "shared subexpression": lambda x: md.exp(x * 2) + md.exp(x * 2),
}


@pytest.mark.parametrize("name", ONE)
def test_row_is_one_launch(name: str) -> None:
    wanted = ONE[name](md.asarray(X).to(gpu))
    for _ in range(2):
        x = md.asarray(X).to(gpu)
        with md.trace_device() as log, md.lazy():
            y = ONE[name](x)
        assert not log.launches, "nothing runs before realize"
        with md.trace_device() as log:
            found = md.realize(y)
        assert len(log.launches) == 1 and not log.copies
        assert type(found) is type(wanted)
        assert found.to("cpu").buffer.tobytes() == wanted.to("cpu").buffer.tobytes()


def test_row_a_dead_branch_is_never_launched() -> None:
    x = md.asarray(X).to(gpu)
    for _ in range(2):
        with md.lazy():
            live, dead = md.relu(x * 2), md.sum(md.exp(x))
        with md.trace_device() as log:
            md.realize(live)
        assert len(log.launches) == 1
        assert pending([dead.buffer]), "sum and exp wait"
