"""Compiled functions: one dispatch for many calls, with the bytes of the calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host import tensor, there

import mdtensor as md


def ten(x: Any, y: Any) -> Any:
    """Ten elementwise calls."""
    x = md.relu(x * 1.5 + y) - md.exp(y)
    return md.tanh(md.maximum(md.abs(x), 0.25) / 3.0) * y


def standardized(x: Any) -> Any:
    centred = x - md.mean(x, axis=-1, keepdims=True)
    var = md.mean(centred * centred, axis=-1, keepdims=True)
    return centred / md.sqrt(var + 1e-5)


def log_sum_exp(x: Any) -> Any:
    top = md.max(x, axis=1)
    return md.log(md.sum(md.exp(x - md.expand_dims(top, axis=1)), axis=1)) + top


def norm(x: Any, w: Any) -> Any:
    return md.layer_norm(x, w, w, normalized_shape=(x.shape[-1],))


ONE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "ten": (ten, [(7, 33), (7, 33)]),
    "softmax": (md.softmax, [(5, 70)]),
    "softmax of columns": (lambda x: md.softmax(x, axis=0), [(70, 5)]),
    "log_softmax": (md.log_softmax, [(2, 3, 65)]),
    "layer_norm": (norm, [(2, 3, 70), (70,)]),
    "rms_norm": (lambda x: md.rms_norm(x, normalized_shape=(6, 5)), [(4, 6, 5)]),
    "standardized": (standardized, [(4, 65)]),
    "log_sum_exp": (log_sum_exp, [(4, 65)]),
    "mirrored": (lambda x: (lambda y: y + md.flip(y))(md.exp(x)), [(4, 6)]),
}


@pytest.mark.parametrize("name", ONE)
def test_one_dispatch_has_the_bytes_of_all(name: str) -> None:
    function, shapes = ONE[name]
    given = [there(tensor("float32", *shape)) for shape in shapes]
    with md.trace_device() as eager:
        wanted = function(*given)
    compiled = md.compile(function, device="webgpu")
    compiled(*given)
    with md.trace_device() as log:
        found = compiled(*given)
    assert len(log.launches) == 1 < len(eager.launches)
    (text,) = compiled.kernels()
    assert "@compute" in text
    assert found.shape == wanted.shape
    here, host = (np.asarray(x.to("cpu")) for x in (found, wanted))
    assert here.tobytes() == host.tobytes()


@pytest.mark.parametrize("type", ["int8", "uint8", "int32"])
def test_integers(type: str) -> None:
    def function(x: Any, y: Any) -> Any:
        return md.max(md.maximum(x * y - 1, x) + x, axis=1)

    x, y = (tensor(type, 6, 70, seed=at) for at in range(2))
    compiled = md.compile(function)
    for _ in range(3):
        found = compiled(there(x), there(y))
        assert found.tolist() == function(x, y).tolist()
