"""Recurrent layers on a device: the numbers of the host, and of the oracle."""

from typing import Any

import numpy as np
import pytest
from support import rendered_device
from support.on_device import agree, gpu, there

import mdtensor as md
from mdtensor.errors import BoundsError, ShapeError
from mdtensor.generics.recurrent import ACTIVATIONS, functions_of
from mdtensor.kernels.reference import recurrent as oracle

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
STEPS, SAMPLES, INPUTS, UNITS = 4, 3, 5, 6
#: Lengths of samples; None for all steps.
LENGTHS = [None, [0, 4, 2]]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def operands(gates: int, states: int, lengths: Any) -> list[Any]:
    """Inputs, weights, biases, states and lengths of a layer."""
    n, k = SAMPLES, UNITS
    found: list[Any] = [numbers(STEPS, n, INPUTS), numbers(gates * k, INPUTS)]
    found += [numbers(gates * k, k), numbers(2, gates * k)]
    found += [numbers(n, k) + at for at in range(states)]
    if gates == 4:
        found.append(numbers(3, k))
    return [*found, None if lengths is None else np.array(lengths)]


def tensors(given: list[Any]) -> list[Any]:
    return [None if x is None else md.asarray(x) for x in given]


def check(call: Any, name: str, given: list[Any], count: int, **options: Any) -> None:
    """Compare a layer on the device with the oracle in float64."""
    found = np.asarray(call(*there(tensors(given)), **options).to("cpu"))
    default = ("sigmoid", "tanh", "tanh")[:count] if count > 1 else ("tanh",)
    activations = options.pop("activations", default)
    wide = [x if x is None or x.dtype.kind == "i" else x.astype(float) for x in given]
    options.setdefault("clip", None)
    extra = {"lstm": "coupled", "gru": "reset_after"}.get(name)
    if extra:
        options.setdefault(extra, False)
    named = functions_of(activations, count)
    wanted = getattr(oracle, name)(*wide, activations=named, **options)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_layers_are_those_of_the_oracle(lengths: Any) -> None:
    four, three = operands(4, 2, lengths), operands(3, 1, lengths)
    for options in ({}, {"clip": 0.5}, {"coupled": True}):
        check(md.lstm, "lstm", four, 3, **options)
    named = [("hardsigmoid", 0.3, 0.4), "softsign", "relu"]
    check(md.lstm, "lstm", four, 3, activations=named)
    for options in ({}, {"clip": 0.5}, {"reset_after": True}):
        check(md.gru, "gru", three, 2, **options)
    check(md.rnn, "rnn", operands(1, 1, lengths), 1)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_function_of_a_state(name: str) -> None:
    check(md.rnn, "rnn", operands(1, 1, None), 1, activations=[(name, 0.7, 0.6)])


def test_what_may_be_left_out() -> None:
    x, w, r = tensors(operands(4, 2, None))[:3]
    agree(md.lstm, x, w, r, near=1e-6)
    agree(md.gru, x, w[:18], r[:18], near=1e-6)
    agree(md.rnn, x, w[:6], r[:6], near=1e-6)
    agree(md.lstm, x[:0], w, r)
    assert md.lstm(*there([x, w, r])).shape == (STEPS + 2, SAMPLES, UNITS)


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float64])
def test_other_types_are_rounded_once(dtype: Any) -> None:
    """Narrow floats are computed in float32: at most one unit from the host's."""
    given = [x.astype(dtype) for x in tensors(operands(3, 1, None))[:5]]
    near = {md.float16: 2e-3, md.bfloat16: 2e-2, md.float64: 1e-14}[dtype]
    wanted, found = md.gru(*given), md.gru(*there(given))
    assert found.dtype is dtype
    a, b = (np.asarray(x.to("cpu").astype(md.float64)) for x in (wanted, found))
    np.testing.assert_allclose(b, a, rtol=near, atol=near)


def test_wrong_operands() -> None:
    x, w, r = there(tensors(operands(1, 1, None))[:3])
    for lengths in ([0, 5, 1], [0, -1, 1]):
        wrong = md.asarray(lengths).to(gpu)
        with pytest.raises(BoundsError, match="a length is outside of 0 to 4, the ste"):
            md.rnn(x, w, r, None, None, wrong)
    with pytest.raises(ShapeError, match="h has shape"):
        md.rnn(x, w, r, None, x[0])


def test_steps_of_a_layer_are_joined() -> None:
    """The bytes of the first call, and at most six launches for each step."""
    given = there(tensors(operands(4, 2, None)))[:6]
    wanted = md.lstm(*given)
    with md.trace_device() as log:
        found = md.lstm(*given)
    first, later = (np.asarray(x.to("cpu")).tobytes() for x in (wanted, found))
    assert first == later
    assert len(log.launches) <= 6 * STEPS + 2
