"""The public function of an operation, written out from its declaration."""

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.each import each

import mdtensor as md
from mdtensor.dispatch.operation import _OPERATIONS


@each("name", sorted(name for name in md.operations() if name.startswith("mdtensor.")))
def test_has_the_declared_signature(name: str) -> None:
    call = md.operations()[name]
    assert inspect.signature(call) == call.operation.signature
    for parameter in call.operation.signature.parameters.values():
        found = inspect.signature(call).parameters[parameter.name]
        assert found.default is parameter.default


def test_threads_may_make_the_first_call_at_once(registered_as_before: None) -> None:
    """A call is written when it is first made, by whoever makes it."""
    for _ in range(200):

        @md.generic
        def twice(x: md.NumericTensor, /, *, by: int = 2) -> md.Tensor:
            """`x` times `by`."""
            raise NotImplementedError

        @md.method(twice)
        def twice(x: md.NumericTensor, /, *, by: Any) -> md.Tensor:
            return x * by

        start, found = threading.Barrier(4), []

        def call() -> None:
            start.wait()  # noqa: B023
            found.append(int(twice(md.asarray(3), by=5)))  # noqa: B023

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert found == [15] * 4


@pytest.fixture
def operations() -> Iterator[None]:
    """The registry of operations, put back afterwards."""
    before = dict(_OPERATIONS)
    yield
    _OPERATIONS.clear()
    _OPERATIONS.update(before)


def test_any_default_annotation_and_name_will_do(operations: None) -> None:
    """What a declaration in a module without lazy annotations may hold."""
    nothing = object()

    def resize(
        x: md.Tensor, /, *, type: md.DType = md.int8, method: Any = nothing, out=None
    ) -> md.Tensor:
        """Parameters that bear the names of what the call uses."""

    resize.__annotations__ = {"x": md.Tensor, "type": md.DType, "return": md.Tensor}
    resize = md.generic(checked=False)(resize)

    @md.method(resize)
    def resize(x: md.Tensor, /, *, type: Any, method: Any) -> Any:
        return type, method

    x = md.asarray([1.0])
    for _ in range(2):
        assert resize(x) == (md.int8, nothing)
        assert resize(x, type=1, method=2) == (1, 2)


def test_a_hit_reads_the_table_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x = md.asarray([1.0])
    md.div(x, x)
    found = md.div.operation.table[md.Float32Tensor][md.Float32Tensor]
    assert found.__code__ is md.which(md.div, x, x).function.__code__

    def never(*_: Any) -> Any:
        raise AssertionError("the table was not read")

    monkeypatch.setattr(md.div.operation, "select", never)
    assert md.div(x, x).tolist() == [1.0]


def test_a_wrong_name_without_options_is_a_type_error_of_python() -> None:
    with pytest.raises(TypeError, match=r"relu\(\) got an unexpected keyword"):
        md.relu(md.asarray([1.0]), inplace=True)
    with pytest.raises(TypeError, match="positional-only"):
        md.relu(x=md.asarray([1.0]))


def test_a_result_that_does_not_fit_into_memory() -> None:
    """Of operations of any number of arguments, with and without options."""
    row = md.broadcast_to(md.ones((1,)), (2**45,))
    for call, name in (
        (lambda: row + 1.0, "add"),
        (lambda: md.exp(row), "exp"),
        (lambda: md.concat([row, row]), "concat"),
        (lambda: md.cumulative_sum(row), "cumulative_sum"),
        (lambda: md.where(row > 0, row, row), "greater"),
        (lambda: md.quant.quantize(row, md.quant.QParams(0.5)), "quantize"),
    ):
        with pytest.raises(md.AllocationError) as raised:
            call()
        text = str(raised.value)
        assert text.startswith(f"{name}(Float32Tensor[35184372088832]")
        assert "TiB for an array with shape" in text
        assert raised.value.__cause__ is None and raised.value.__suppress_context__


def test_an_allocation_error_of_a_method_stays(registered_as_before: None) -> None:
    @md.generic
    def fills(x: Any, /) -> Any:
        """Fill the memory."""

    @md.method(fills)
    def fills(x: int, /) -> Any:
        raise md.AllocationError("mine") if x else MemoryError

    with pytest.raises(md.AllocationError, match=r"^fills\(int\): mine"):
        fills(1)
    with pytest.raises(md.AllocationError, match=r"fills\(int\): there is no memory"):
        fills(0)


def test_an_error_inside_a_method_is_not_a_missing_method(operations: None) -> None:
    """The call catches KeyError for the table alone."""

    @md.generic
    def look_up(x: Any, /) -> Any:
        """Raises KeyError."""

    @md.method(look_up)
    def look_up(x: md.Tensor, /) -> Any:
        return {}[type(x)]

    for _ in range(2):
        with pytest.raises(KeyError):
            look_up(md.asarray([1.0]))


@pytest.mark.usefixtures("operations")
def test_a_method_with_more_arguments_than_the_declaration_is_not_selected() -> None:
    @md.generic
    def paired(a, b, /):
        """Two."""

    @md.method(paired)
    def paired(a: md.NumericTensor, /, *rest: md.NumericTensor):
        return len(rest)

    assert paired(md.asarray([1]), md.asarray([2])) == 1
    for count in (1, 3):
        with pytest.raises(md.NoMethodError):
            paired.select(*[md.Int8Tensor] * count)


def test_calls_with_out_have_a_table_of_their_own(registered_as_before: None) -> None:
    @md.generic
    def halve(x: Any, /, *, out: Any = None) -> Any:
        """Half of `x`, rounded to `out`."""

    @md.method(halve)
    def halve(x: int, /, *, out: Any = None) -> Any:
        return "first", out

    operation: Any = halve.operation
    assert halve(1) == ("first", None)
    assert operation.rounded == {}
    assert halve(1, out=2) == ("first", 2)
    assert [*operation.rounded] == [*operation.table] == [int]
    with md.traced() as calls:
        assert halve(1, out=2) == ("first", 2)
        assert operation.rounded == {}
    assert len(calls) == 1

    @md.method(halve, override=True)
    def halve(x: int, /, *, out: Any = None) -> Any:
        return "second", out

    assert halve(1, out=2) == ("second", 2)
