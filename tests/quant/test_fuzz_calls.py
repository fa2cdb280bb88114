"""Any operation with any arguments: a result or an error of ours, and no warning.

Types, numbers of arguments and options are drawn without a thought for what the
operation is about.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.layouts import any_codes

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams

OPERATIONS = [
    function
    for name, function in sorted(md.operations().items())
    if name.startswith("mdtensor.")
]
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)
LEAVES = list(md.leaves()[:15])
#: Sizes are small or hopeless: what would only take long is left out.
ODD = [0, 1, 2, 3, -1, 7, 2**62, 2**63, 10**400, 1.5, float("nan"), float("inf"), 1j]
ODD += [None, True, "same", "", b"x", (), (0,), (1, 2, 3), (1, -1), [1], [[1, 1]], {}]
ODD += [slice(None), ..., np.ones(2), np.float32(1), object(), int, md.float32]
ODD += [quant.qint8, quant.qint4, "qint8", "exact", "tflite_ref", QParams(0.5)]
ODD += [QParams([0.5, 1], axis=0), QParams(0.5, dtype="qint32")]


def dense(draw):
    leaf = draw(st.sampled_from(LEAVES))
    return leaf.wrap(np.ones(draw(SHAPES), leaf.dtype.storage))


def anything(draw):
    """A quantized tensor of two in four, a real one, or no tensor."""
    kind = draw(st.integers(0, 3))
    if kind < 2:
        return any_codes(draw, draw(SHAPES))
    return dense(draw) if kind == 2 else draw(st.sampled_from(ODD))


def any_call(function, draw):
    operation = function.operation
    count = len(operation.dispatched) + draw(st.sampled_from([0, 0, 0, -1, 1]))
    arguments = [anything(draw) for _ in range(max(count, 0))]
    if operation.sequence and arguments:
        arguments[0] = [anything(draw) for _ in range(draw(st.integers(0, 3)))]
    # An option by position and by name is Python's to refuse: decision 0024.
    known = [] if count > len(operation.dispatched) else sorted(operation.options)
    names = draw(st.sets(st.sampled_from(known))) if known else ()
    options = {name: anything(draw) for name in sorted(names)}
    return partial(function, *arguments, **options)


def answers(function, draw):
    call = any_call(function, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            call()
        except md.MdtensorError as error:
            assert str(error)


each = pytest.mark.parametrize("function", OPERATIONS, ids=lambda f: f.__name__)


@each
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_call_is_answered(function, data):
    answers(function, data.draw)


@pytest.mark.slow
@each
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_call_is_answered_at_length(function, data):
    answers(function, data.draw)
