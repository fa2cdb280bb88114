"""What is inferred is what comes out: for every operation, over random calls."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.draws import DRAWS, INSIDE

import mdtensor as md
from mdtensor import DYNAMIC, Dim, TensorSpec
from mdtensor.errors import MdtensorError

Draw = Callable[..., Any]
each_operation = pytest.mark.parametrize("operation", DRAWS, ids=lambda f: f.__name__)


def outcome(call: Callable[[], Any]) -> Any:
    """The result, or the class of our error."""
    try:
        return call()
    except MdtensorError as error:
        return type(error)


def flat(result: Any) -> Iterator[Any]:
    yield from result if isinstance(result, tuple) else (result,)


def specs(argument: Any) -> Any:
    """What `infer` takes for it: a spec for a tensor, of many for many."""
    if isinstance(argument, md.Tensor):
        return TensorSpec(type(argument), argument.shape)
    return argument


def placed(operation: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments as a call takes them."""
    return (arguments,) if operation.operation.sequence else arguments


def agree(operation: Any, draw: Draw) -> None:
    """Execution and inference give one type and shape, or refuse with one class."""
    arguments, options = DRAWS[operation](draw)
    known = tuple(map(specs, arguments))
    result = outcome(lambda: operation(*placed(operation, arguments), **options))
    found = outcome(lambda: md.infer(operation, *placed(operation, known), **options))
    if isinstance(found, type) or isinstance(result, type):
        is_inside = result in INSIDE.get(operation, ())
        assert found is result or is_inside, (found, result)
        return
    assert all(x.buffer.dtype == x.dtype.storage for x in flat(result))
    assert_fits(found, result)
    if operation is not md.unstack:  # how many parts there are is always known
        partly = tuple(forget(x, draw) for x in known)
        found = md.infer(operation, *placed(operation, partly), **options)
        assert_fits(found, result)


def assert_fits(found: Any, result: Any) -> None:
    """Types and sizes are as deduced, where these are known."""
    for spec, tensor in zip(flat(found), flat(result), strict=True):
        assert spec.type is type(tensor)
        assert len(spec.shape) == tensor.ndim
        assert all(map(fits, spec.shape, tensor.shape)), (spec, tensor)


def fits(deduced: int, actual: int) -> bool:
    if isinstance(deduced, Dim):  # its name ends in its size
        return deduced.name[1:] == str(actual)
    return deduced in (actual, DYNAMIC)


def forget(spec: Any, draw: Draw) -> Any:
    """A spec of which some sizes are unknown, or have a name only."""
    if not isinstance(spec, TensorSpec):
        return spec
    return spec.with_shape(
        draw(st.sampled_from([n, n, DYNAMIC, Dim(f"a{n}"), Dim(f"b{n}")]))
        for n in spec.shape
    )


@each_operation
@settings(max_examples=10)
@given(data=st.data())
def test_inference_is_execution(operation: Any, data: st.DataObject) -> None:
    agree(operation, data.draw)


@pytest.mark.slow
@each_operation
@settings(max_examples=1000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_inference_is_execution_in_1000_draws(
    operation: Any, data: st.DataObject
) -> None:
    agree(operation, data.draw)


def test_every_operation_is_drawn() -> None:
    core = {
        f
        for name, f in md.operations().items()
        if name.startswith("mdtensor.generics.")
    }
    assert set(DRAWS) == core


def test_a_spec_reads_like_a_tensor() -> None:
    found = TensorSpec(md.Int8Tensor, (2, -1))
    assert (str(found), found.ndim, found.dtype) == ("Int8Tensor[2,-1]", 2, md.int8)
    assert repr(found) == "TensorSpec(Int8Tensor[2,-1])"
    assert found.with_dtype(md.float32).type is md.Float32Tensor
    assert found.with_dtype(md.int8) is found
