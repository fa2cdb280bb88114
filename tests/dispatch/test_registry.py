"""Methods by device, at run time: looked up, added, replaced, taken away."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from support.queue_ops import queued
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor import registry
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    NoMethodError,
    OptionError,
    RegistrationError,
)

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with shelved(PLAIN) as place:
        yield place


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def on_shelf(ufunc: Any) -> Callable[..., Any]:
    """An operation on the shelf: computed at once, in the type of the first tensor."""

    def run(*operands: Any) -> Any:
        tensor = next(x for x in operands if isinstance(x, md.Tensor))
        return tensor.wrap(ufunc(*(getattr(x, "buffer", x) for x in operands)))

    return run


def there(values: Any, shelf: Shelf) -> Any:
    return md.to(md.asarray(values), shelf)


def test_get_gives_the_methods_that_calls_choose_from() -> None:
    (found,) = registry.get("glu", "cpu")
    assert found is registry.get(md.glu, md.cpu)[0]
    assert found is md.which(md.glu, md.Float32Tensor).method


def test_a_missing_pair_names_itself_and_what_there_is(shelf: Shelf) -> None:
    assert text(DispatchError, lambda: registry.get("exp", "shelf")) == (
        "exp: no method on shelf. It has methods on cpu."
    )
    registry.add("exp", shelf, on_shelf(np.exp))
    assert text(DispatchError, lambda: registry.get("exp", "cuda")) == (
        "exp: no method on cuda:0. It has methods on cpu, shelf."
    )
    assert text(DeviceError, lambda: registry.get("exp", "moon")).startswith(
        "no device 'moon'. Registered devices: cpu"
    )
    assert text(OptionError, lambda: registry.get(print, "cpu")).endswith(
        "is not an operation. See md.operations()."
    )
    assert text(OptionError, lambda: registry.get("odd", "cpu")) == (
        "get_op(odd): there is no operation odd."
    )


def test_looking_makes_nothing(shelf: Shelf) -> None:
    before = registry.entries()
    for name in ("exp", "add"):
        with pytest.raises(DispatchError):
            registry.get(name, "shelf")
    assert registry.entries() == before
    assert not any(place == "shelf" and "exp" in name for name, place in before)


def test_some_methods_run_everywhere(shelf: Shelf) -> None:
    for name in ("to", "zeros_like", "full_like"):
        found = registry.get(name, shelf)
        assert found and {*found} <= {*registry.get(name, "cpu")}
    there = [name for name, place in registry.entries() if place == "shelf"]
    everywhere = {name.rpartition(".")[2] for name in there}
    assert everywhere == {"to", "empty_like", "full_like", "ones_like", "zeros_like"}


def test_added_for_every_type_of_the_device(shelf: Shelf) -> None:
    registry.add("add", shelf, on_shelf(np.add))
    x = there([1.0, 2.0], shelf)
    assert (x + x).tolist() == x.add(x).tolist() == md.add(x, x).tolist() == [2.0, 4.0]
    assert (x + 1).tolist() == (1 + x).tolist() == [2.0, 3.0]
    assert (there([1], shelf) + there([2], shelf)).tolist() == [3]
    assert md.add(md.asarray(1), 2).tolist() == 3
    assert text(DeviceError, lambda: x + md.asarray([1.0])).endswith(
        "operands are on shelf and cpu. Move one with to(device)."
    )


def test_methods_of_kinds_stay_less_specific(shelf: Shelf) -> None:
    """abs has one method for real and one for complex tensors: both are taken over."""
    assert len(registry.get("abs", "cpu")) > 1
    registry.add("abs", shelf, on_shelf(np.abs))
    for values in ([-1.0], [-1], [3 + 4j]):
        assert md.which(md.abs, there(values, shelf)).method in registry.get(
            "abs", shelf
        )
    assert md.abs(md.asarray([-1.0])).tolist() == [1.0]


def test_a_duplicate_is_refused_by_name(shelf: Shelf) -> None:
    (cpu_add, *_) = registry.get("add", "cpu")
    assert text(RegistrationError, lambda: registry.add("add", "cpu", print)) == (
        f"add on cpu is registered already by {cpu_add.location}. "
        "Pass override=True to replace it."
    )
    first, *_ = registry.add("relu", shelf, on_shelf(np.abs))
    assert text(RegistrationError, lambda: registry.add("relu", shelf, print)) == (
        f"relu on shelf is registered already by {first.location}. "
        "Pass override=True to replace it."
    )
    assert "test_registry.py:" in first.location


def test_replaced_when_told_to(shelf: Shelf) -> None:
    registry.add("relu", shelf, on_shelf(np.abs))
    x = there([-1.0, 2.0], shelf)
    assert md.relu(x).tolist() == [1.0, 2.0]
    registry.add("relu", shelf, on_shelf(np.negative), override=True)
    assert md.relu(x).tolist() == [1.0, -2.0]
    assert len(registry.get("relu", shelf)) == 1
    assert md.relu(md.asarray([-1.0])).tolist() == [0.0]


def test_the_host_can_be_replaced_and_comes_back() -> None:
    x = md.asarray([-1.0])
    with registry.restored():
        registry.add("relu", "cpu", lambda x: x, override=True)
        assert md.relu(x) is x
    assert md.relu(x).tolist() == [0.0]


def test_removed(shelf: Shelf) -> None:
    registry.add("relu", shelf, on_shelf(np.abs))
    registry.remove("relu", shelf)
    assert text(DispatchError, lambda: registry.get("relu", shelf)).startswith("relu:")
    with pytest.raises(DispatchError):
        registry.remove("relu", shelf)
    with pytest.raises(NoMethodError, match="no method for shelf yet"):
        md.relu(there([1.0], shelf))
    with registry.restored():
        registry.remove("erf", "cpu", override=True)
        with pytest.raises(DispatchError, match="Nothing is registered yet"):
            md.erf(md.asarray([1.0]))
    assert md.erf(md.asarray([0.0])).tolist() == [0.0]


def test_what_runs_everywhere_is_not_removed_from_one_device(shelf: Shelf) -> None:
    registry.remove("to", shelf)
    assert registry.get("to", shelf)


class Doubler:
    def __call__(self, x: Any) -> Any:
        return x.wrap(x.buffer * 2)

    def double(self, x: Any) -> Any:
        return self(x)


CALLABLES: dict[str, tuple[Any, str]] = {
    "lambda": (lambda x: x.wrap(x.buffer * 2), "test_registry.py:"),
    "bound method": (Doubler().double, "test_registry.py:"),
    "object": (Doubler(), "test_registry.py:"),
    "partial": (functools.partial(Doubler.__call__, Doubler()), "test_registry.py:"),
    "builtin": (dict, "builtins.dict"),
    "ufunc": (np.exp, "numpy.exp"),
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_any_callable(shelf: Shelf, kind: str) -> None:
    function, place = CALLABLES[kind]
    (made,) = registry.add("exp", shelf, function)[:1]
    assert place in made.location
    if place == "test_registry.py:":
        assert md.exp(there([1.0], shelf)).tolist() == [2.0]


def test_options_come_by_keyword(shelf: Shelf) -> None:
    given = []
    registry.add("sum", shelf, lambda x, **options: given.append(options))
    there([1.0], shelf).sum(axis=0)
    assert given == [{"axis": 0, "dtype": None, "keepdims": False}]


def test_one_function_for_several_operations(shelf: Shelf) -> None:
    run = on_shelf(np.abs)
    for name in ("abs", "relu", "neg"):
        registry.add(name, shelf, run)
    x = there([-1.0], shelf)
    assert md.abs(x).tolist() == md.relu(x).tolist() == md.neg(x).tolist() == [1.0]


def test_arguments_that_are_no_tensors(shelf: Shelf) -> None:
    def astype(x: Any, dtype: Any, **_: Any) -> Any:
        kind = md.leaf(md.dtype(dtype), x.device)
        return kind.wrap(x.buffer.astype(kind.dtype.storage))

    registry.add("astype", shelf, astype)
    x = there([1.5], shelf)
    for dtype in (md.int8, "int8", np.dtype("int8"), md.Int8Tensor):
        assert (x.astype(dtype).dtype, x.astype(dtype).tolist()) == (md.int8, [1])


def test_sequences(shelf: Shelf) -> None:
    def concat(*arrays: Any, axis: Any) -> Any:
        return arrays[0].wrap(np.concatenate([x.buffer for x in arrays], axis))

    registry.add("concat", shelf, concat)
    x = there([1.0], shelf)
    assert md.concat([x, x, x]).tolist() == [1.0, 1.0, 1.0]


def test_types_may_be_given(shelf: Shelf) -> None:
    narrow = md.leaf(md.float32, shelf)
    registry.add("exp", shelf, on_shelf(np.exp), types=(narrow,))
    assert md.exp(there([0.0], shelf)).tolist() == [1.0]
    with pytest.raises(NoMethodError, match="no method for shelf"):
        md.exp(md.to(md.asarray([0.0], dtype=md.float64), shelf))


def test_types_and_functions_are_checked(shelf: Shelf) -> None:
    head = "place 0 of a method of exp is annotated with "
    tails: list[tuple[Any, str]] = [
        (md.float32, "the dtype float32, not with a tensor class. Use leaf(float32)"),
        ("Float32Tensor", "'Float32Tensor', not with a class. Use a class, or a union"),
    ]
    for given, tail in tails:
        said = text(
            RegistrationError,
            lambda given=given: registry.add("exp", shelf, np.exp, types=(given,)),
        )
        assert said.startswith(head + tail)
    assert text(RegistrationError, lambda: registry.add("exp", shelf, 3)) == (  # type: ignore[arg-type]
        "3 cannot be called. Give a function for exp."
    )
    wrong: Any = "shelf"
    assert text(RegistrationError, lambda: md.register_device(wrong)) == (
        "'shelf' is not a device. Derive from Device."
    )
    assert text(OptionError, lambda: md.cpu.stream().wait(wrong)) == (
        "event is 'shelf'. Use stream.record()."
    )


def test_an_operation_of_a_stranger(shelf: Shelf) -> None:
    with registry.restored():

        @md.generic
        def twice(x: Any, /) -> Any:
            """2·x."""

        registry.add(twice, shelf, on_shelf(lambda a: a * 2))
        assert twice(there([1.0], shelf)).tolist() == [2.0]
        assert text(DispatchError, lambda: registry.get(twice, "cpu")) == (
            "twice: no method on cpu. It has methods on shelf."
        )
        names = [name for name in md.operations() if name.endswith(".twice")]
        assert len(names) == 1
    assert not [name for name in md.operations() if name.endswith(".twice")]


def test_a_device_without_tensors_has_no_place_for_methods() -> None:
    with shelved([]) as bare:
        assert text(RegistrationError, lambda: registry.add("exp", bare, print)) == (
            "shelf has no tensor types. Declare class Mine(FloatingTensor, "
            "dtype=float32, device=mine)."
        )


def test_the_table_of_support_agrees() -> None:
    """What runs there for some type is what has a method there."""
    with queued():
        found = {c.name for c in md.support(device="queue") if c.state == "runs"}
        assert found == {name for name, place in registry.entries() if place == "queue"}
        why = next(
            c.why for c in md.support("exp", device="queue") if c.dtype is md.float32
        )
        assert why == "no method for queue yet"


def test_everything_is_as_before() -> None:
    before = registry.entries(), md.devices(), md.leaves(), md.operations()
    with queued():
        assert registry.get("add", "queue")
    assert (registry.entries(), md.devices(), md.leaves(), md.operations()) == before
    for call in md.operations().values():
        assert call.operation.methods or call.__name__ not in vars(md)


def test_old_categories_lead_to_new_ones() -> None:
    with pytest.warns(DeprecationWarning, match="'trigonometry' is now 'math'"):
        assert "sin" in md.ops("trigonometry")
    assert md.get_op("trigonometry.sin") is md.get_op("math.sin") is md.sin
