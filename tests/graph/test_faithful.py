"""Networks of float convolutions in compiled functions: the bytes of the calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import mdtensor as md
from mdtensor.graph.join import Joined
from mdtensor.kernels.numpy.threads import POOL

#: Numbers whose sums and comparisons go wrong first.
SPECIAL = np.array([0.0, -0.0, 1e-40, -3e38, 3e38, np.inf, -np.inf, np.nan], np.float32)
LAYERS = ("dense", "pixels", "depthwise", "groups", "max", "average", "act", "residual")
ACTS = (md.relu, md.relu6, md.silu, md.hardswish, md.sigmoid, md.tanh, md.gelu, md.neg)


def normal(*shape: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return md.asarray(rng.normal(size=shape).astype(np.float32))


def raw(x: Any) -> Any:
    found = np.asarray(x)
    return found.shape, np.where(np.isnan(found), np.float32(np.nan), found).tobytes()


def joined(trace: md.graph.Trace) -> list[list[str]]:
    items = [x for x in trace.items() if isinstance(x, Joined)]
    return [[call.name for call in item.calls] for item in items]


def layer(kind: str, channels: int, seed: int) -> Callable[[Any], Any]:
    """Return a function of images with 8 channels, which keeps their number."""
    bias = normal(channels, seed=seed + 1) if seed % 2 else None
    dense = normal(channels, channels, 3, 3, seed=seed)
    pixels = normal(channels, channels, 1, 1, seed=seed)
    single = normal(channels, 1, 3, 3, seed=seed)
    pairs = normal(channels, 2, 3, 2, seed=seed)
    act = ACTS[seed % len(ACTS)]
    return {
        "dense": lambda x: md.conv2d(x, dense, bias, padding=1),
        "pixels": lambda x: md.conv2d(x, pixels, bias),
        "depthwise": lambda x: md.conv2d(x, single, bias, padding=1, groups=channels),
        "groups": lambda x: md.conv2d(x, pairs, bias, padding=2, groups=channels // 2),
        "max": lambda x: md.max_pool2d(x, 3, stride=1, padding=1),
        "average": lambda x: md.avg_pool2d(x, 2, stride=1, padding=1),
        "act": act,
        "residual": lambda x: md.add(x, md.mul(x, 0.5)),
    }[kind]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(LAYERS), st.integers(0, 40)), max_size=6),
    st.sampled_from([4, 8, 20]),
    st.integers(1, 3),
    st.booleans(),
)
def test_networks_have_the_bytes_of_their_calls(
    kinds: list[tuple[str, int]], channels: int, images: int, is_special: bool
) -> None:
    layers = [layer(kind, channels, seed) for kind, seed in [("dense", 1), *kinds]]

    def network(x: Any) -> Any:
        for one in layers:
            x = one(x)
        return x

    given_images = np.array(normal(images, channels, 6, 7, seed=images))
    if is_special:
        rng = np.random.default_rng(len(kinds))
        places = rng.integers(0, given_images.size, 5)
        given_images.reshape(-1)[places] = rng.choice(SPECIAL, 5)
    x = md.from_numpy(given_images)
    wanted, compiled = raw(network(x)), md.compile(network)
    for _ in range(3):
        assert raw(compiled(x)) == wanted
    (trace,) = compiled.traces
    assert "conv2d" in [name for names in joined(trace) for name in names]
    assert raw(md.realize(network(x.to("lazy")))) == wanted


def test_a_network_is_one_compiled_call_with_packed_weights() -> None:
    w, v = normal(8, 3, 3, 3), normal(8, 1, 3, 3)

    def network(x: Any) -> Any:
        y = md.relu(md.conv2d(x, w, stride=2))
        return md.max_pool2d(md.relu6(md.conv2d(y, v, groups=8)), 2)

    compiled = md.compile(network)
    for _ in range(3):
        compiled(normal(1, 3, 20, 20))
    (trace,) = compiled.traces
    names = ["conv2d", "relu", "conv2d", "relu6", "max_pool2d"]
    assert joined(trace) == [names]


def test_one_convolution_is_worth_a_compiled_call() -> None:
    w = normal(8, 3, 3, 3)
    compiled = md.compile(lambda x: md.conv2d(x, w))
    x = normal(1, 3, 9, 9)
    for _ in range(3):
        assert raw(compiled(x)) == raw(md.conv2d(x, w))
    (trace,) = compiled.traces
    assert joined(trace) == [["conv2d"]]


def test_products_of_matrices_stay_calls() -> None:
    w, v = normal(4, 3, 3, 3), normal(5, 4 * 49)

    def network(x: Any) -> Any:
        y = md.relu(md.conv2d(x, w))
        return md.relu(md.linear(md.reshape(y, (1, -1)), v))

    x = normal(1, 3, 9, 9)
    compiled = md.compile(network)
    for _ in range(3):
        assert raw(compiled(x)) == raw(network(x))
    (trace,) = compiled.traces
    assert "linear" not in [name for names in joined(trace) for name in names]


def test_weights_that_come_in_are_packed_at_each_call() -> None:
    compiled = md.compile(lambda x, w: md.relu(md.conv2d(x, w)))
    x = normal(1, 3, 9, 9)
    for seed in range(4):
        w = normal(4, 3, 3, 3, seed=seed)
        assert raw(compiled(x, w)) == raw(md.relu(md.conv2d(x, w)))


def test_a_write_into_weights_is_seen() -> None:
    w, x = normal(4, 3, 3, 3), normal(1, 3, 9, 9)
    compiled = md.compile(lambda x: md.relu(md.conv2d(x, w)))
    for number in (1.0, 2.0, 3.0, 4.0):
        w[0, 0, 0, 0] = number
        for _ in range(3):
            assert raw(compiled(x)) == raw(md.relu(md.conv2d(x, w)))


def test_images_that_threads_share_stay_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    w = normal(32, 32, 3, 3)
    monkeypatch.setattr(POOL, "size", 2)
    compiled, x = md.compile(lambda x: md.relu(md.conv2d(x, w))), normal(2, 32, 26, 26)
    for _ in range(3):
        assert raw(compiled(x)) == raw(md.relu(md.conv2d(x, w)))
    (trace,) = compiled.traces
    assert not joined(trace)
