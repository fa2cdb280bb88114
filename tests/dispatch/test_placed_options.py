"""Options by position, as in NumPy and PyTorch: the error shows the call that works."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.samples import floats, sample

import mdtensor as md
from mdtensor import quant
from mdtensor.dispatch import Operation
from mdtensor.dispatch.call import TARGET
from mdtensor.dispatch.suggestions import POSITIONS
from mdtensor.errors import DispatchError

OURS = sorted(name for name in md.operations() if name.startswith("mdtensor."))
X, W = floats(2, 3), floats(3)
IMAGE, KERNEL = floats(1, 2, 4, 4), floats(2, 2, 1, 1)


def fix_of(call: Callable[[], Any]) -> str:
    with pytest.raises(DispatchError) as caught:
        call()
    assert type(caught.value) is DispatchError
    assert caught.value.problem.endswith("came by position, but must be given by name")
    return caught.value.fix


#: What users of NumPy and PyTorch write.
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "axis": (lambda: md.softmax(X, -1), "softmax(x, axis=-1)"),
    "None": (lambda: md.sum(X, None, "int8"), "sum(x, axis=None, dtype='int8')"),
    "skipped": (lambda: md.sum(X, 0, True), "sum(x, axis=0, keepdims=True)"),
    "mixed": (lambda: md.sum(X, 0, keepdims=True), "sum(x, axis=0, keepdims=True)"),
    "list": (lambda: md.concat([X, X], 0), "concat([x1, x2], axis=0)"),
    "value": (lambda: md.repeat(X, 2, 0), "repeat(x, 2, axis=0)"),
    "shape": (lambda: md.layer_norm(X, (3,)), "layer_norm(x, normalized_shape=(3,))"),
    "shape, weights": (
        lambda: md.layer_norm(X, (3,), W, W, 1e-3),
        "layer_norm(x, weight, bias, normalized_shape=(3,), eps=0.001)",
    ),
    "groups": (lambda: md.group_norm(IMAGE, 2), "group_norm(x, num_groups=2)"),
    "no bias": (
        lambda: md.conv2d(IMAGE, KERNEL, None, 1, 0),
        "conv2d(x, w, None, stride=1, padding=0)",
    ),
    "method": (lambda: X.softmax(-1), "softmax(x, axis=-1)"),
    "infer": (lambda: md.infer("sum", X, 0), "sum(x, axis=0)"),
    "NumPy's order": (lambda: md.diff(X, 2, 0), "diff(x, n=2, axis=0)"),
    "PyTorch's order": (lambda: md.linalg.vector_norm(X, 1, 0), "vector_norm(x, ord=1"),
    "a required grid": (
        lambda: quant.requantize(
            quant.quantize(X, quant.QParams(0.5)), quant.QParams(1)
        ),
        "requantize(x, out=out)",
    ),
    "of quant": (
        lambda: quant.quantize(X, quant.QParams(0.5), "half_up"),
        "quantize(x, qparams, rounding='half_up')",
    ),
    "zeros": (lambda: md.zeros((2,), md.int8), "zeros((2,), dtype=mdtensor.int8)"),
    "a NumPy type": (lambda: md.zeros(2, np.int8), "zeros(2, dtype=dtype)"),
    "asarray": (lambda: md.asarray([1], "int8"), "asarray(obj, dtype='int8')"),
    "arange": (
        lambda: md.arange(0, 3, 1, md.int8),
        "arange(0, 3, 1, dtype=mdtensor.int8)",
    ),
    "eye": (lambda: md.eye(3, 3, 1), "eye(3, 3, k=1)"),
    "fftfreq": (lambda: md.fft.fftfreq(8, 0.5), "fftfreq(8, d=0.5)"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_that_works(name: str) -> None:
    call, wanted = CALLS[name]
    assert fix_of(call).startswith(f"Write {wanted}")


# Where the meaning elsewhere is another one, or open, no call is shown.
@pytest.mark.parametrize(
    "call",
    [
        lambda: md.zeros(2, 3),
        lambda: md.concat(X, X),
        lambda: md.add(X, X, 3),
        lambda: md.add(X, X, X),
        lambda: md.sum(X, 0, axis=1),
        lambda: md.std(X, 0, True),
        lambda: md.astype(X, md.int8, "saturate"),
        lambda: md.isin(X, X, True),
        lambda: md.max_pool2d(IMAGE, 2, 2, 0, 1),
        lambda: md.scaled_dot_product_attention(X, X, X, None, 0.0, True),
        lambda: md.layer_norm(X),
        lambda: md.layer_norm(X, W),
    ],
)
def test_an_open_meaning(call: Callable[[], Any]) -> None:
    with pytest.raises(DispatchError) as caught:
        call()
    assert "came by position" not in str(caught.value)


def outcome(found: Any) -> Any:
    """Return the results of a call in a form that can be compared."""
    parts = found if isinstance(found, tuple) else (found,)
    return [(type(x), np.asarray(x).tobytes()) for x in parts]


@pytest.mark.parametrize("name", OURS)
def test_each_option_of_each_operation(name: str) -> None:
    """With its first options by position, a call fails and shows one that works."""
    function: Any = md.operations()[name]
    operation: Operation = function.operation
    arguments, given = sample(function)
    filled = {**operation.options, **given}
    parameters = operation.signature.parameters
    named = [n for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY]
    named = [n for n in named if n not in ("out", "rounding")]
    placed = [filled.pop(n) for n in operation.options if n not in (*named, *TARGET)]
    first = ((arguments,) if operation.sequence else arguments) + tuple(placed)
    scope = dict(zip(parameters, (*arguments, *placed), strict=False)) | filled
    scope |= {"x1": arguments[0], "x2": arguments[-1]}
    scope |= {"mdtensor": md, operation.name: function}
    options = {n: filled[n] for n in named}
    is_defined = function is not md.empty_like
    order = list(POSITIONS.get(operation.name, named))
    for count in range(1, len(order) + 1):
        if not {*order[:count]} <= {*named}:  # PyTorch's own
            return
        values = [options[n] for n in order[:count]]
        rest = {n: options[n] for n in named if n not in order[:count]}
        fix = fix_of(lambda: function(*first, *values, **rest))  # noqa: B023
        assert all(f"{n}=" in fix for n in order[:count])
        found = outcome(eval(fix.removeprefix("Write "), scope))
        assert found == outcome(function(*first, **options)) or not is_defined


def test_orders_name_operations() -> None:
    names = {call.operation.name for call in md.operations().values()}
    assert POSITIONS.keys() <= names
