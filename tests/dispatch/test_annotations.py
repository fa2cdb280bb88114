"""What a method is annotated with is looked at when it is added, and where it is."""

import functools
from typing import Any, Union

import pytest

import mdtensor as md
from mdtensor.errors import RegistrationError

pytestmark = pytest.mark.usefixtures("registered_as_before")


def declare() -> Any:
    @md.generic
    def probe(x: Any, /, *, size: int = 1) -> Any:
        """Of one tensor."""

    return probe


def refused(annotation: Any) -> str:
    operation = declare()

    def method(x, /, *, size):  # type: ignore[no-untyped-def]
        """Of the annotated type."""

    if annotation is not None:
        method.__annotations__ = {"x": annotation}
    with pytest.raises(RegistrationError) as caught:
        md.method(operation)(method)
    assert operation.operation.methods == ()
    return str(caught.value)


def test_no_annotation_is_no_catch_all() -> None:
    assert refused(None) == (
        "parameter x of a method of probe has no annotation. Annotate it with a class "
        "of tensors, or with object to take anything."
    )


def test_all_of_a_sequence_are_annotated() -> None:
    @md.generic(sequence=True)
    def several(arrays: Any, /) -> Any:
        """Of many."""

    with pytest.raises(RegistrationError, match="parameter arrays of a method of sev"):

        @md.method(several)
        def several(*arrays): ...  # type: ignore[no-untyped-def]


def test_a_type_of_elements_is_no_class() -> None:
    assert refused(md.float32) == (
        "parameter x of a method of probe is annotated with the dtype float32, not "
        "with a tensor class. Use leaf(float32)."
    )
    assert md.leaf(md.float32) is md.Float32Tensor


def test_object_takes_anything() -> None:
    operation = declare()

    @md.method(operation)
    def other_name(x: object, /, **options: Any) -> Any:
        return x, options

    assert operation("text", size=3) == ("text", {"size": 3})
    assert operation("text") == ("text", {"size": 1})


def test_a_method_bears_the_name_of_its_operation() -> None:
    operation = declare()

    @md.method(operation)
    def other_name(x: Union[md.BoolTensor, md.Int8Tensor], /, *, size: int) -> Any: ...

    (method,) = operation.operation.methods
    assert str(method) == "probe(BoolTensor | Int8Tensor)"
    assert "test_annotations.py:" in method.location


class Adder:
    """Its methods serve as methods of an operation."""

    def __init__(self, step: int) -> None:
        self.step = step

    def bound(self, x: int, /, *, size: int) -> Any:
        return x + self.step * size

    @classmethod
    def of_class(cls, x: str, /, **options: Any) -> Any:
        return cls.__name__ + x

    @staticmethod
    def static(x: bytes, /, **options: Any) -> Any:
        return x

    def rest(self, *arrays: int) -> Any:
        return self.step + sum(arrays)


def test_bound_methods_are_methods() -> None:
    """`self` is no parameter of theirs."""
    operation, adder = declare(), Adder(10)
    for function in (adder.bound, adder.of_class, adder.static):
        md.method(operation)(function)
    assert operation(1, size=2) == 21
    assert operation("!") == "Adder!"
    assert operation(b"4") == b"4"
    shown = [str(method) for method in operation.operation.methods]
    assert shown == ["probe(int)", "probe(str)", "probe(bytes)"]
    assert operation.operation.methods[0].location.endswith(
        f"test_annotations.py:{Adder.bound.__code__.co_firstlineno}"
    )


def test_a_bound_method_takes_a_sequence() -> None:
    @md.generic(sequence=True)
    def several(arrays: Any, /) -> Any:
        """Of many."""

    md.method(several)(Adder(10).rest)
    assert several([1, 2]) == 13


def test_the_annotations_of_a_function_stay() -> None:
    operation = declare()

    def method(x: int, /, *, size: int) -> str:
        return "text"

    before = dict(method.__annotations__)
    md.method(operation)(method)
    assert method.__annotations__ == before


@pytest.mark.parametrize("make", ["plain", "wrapped", "class", "nested"])
def test_annotations_as_text_name_local_classes(make: str) -> None:
    space: dict[str, Any] = {"__name__": __name__, "md": md, "functools": functools}
    exec(LATE, space)
    operation, answer = space[make]()
    assert operation(answer) is answer
    with pytest.raises(md.NoMethodError):
        operation("text")


LATE = """
from __future__ import annotations
from typing import TYPE_CHECKING, Any, Union
if TYPE_CHECKING:
    from nowhere import Result

class Given: "Hidden by the local one."

def plain():
    class Given: ...
    @md.generic
    def probe(x: Given, /) -> Result: "Of one."
    @md.method(probe)
    def probe(x: Given, /) -> Result: return x
    return probe, Given()

def wrapped():
    class Given: ...
    @md.generic
    def probe(x: Any, /) -> Result: "Of one."
    def inner(x: Union[Given, None], /) -> Result: return x
    @md.method(probe)
    @functools.wraps(inner)
    def probe(*arguments): return inner(*arguments)
    return probe, Given()

def nested():
    class Given: ...
    def define():
        class Other: ...
        @md.generic
        def probe(x: Any, /) -> Result: "Of one."
        @md.method(probe)
        def probe(x: Other | Given, /) -> Result: return x
        return probe
    return define(), Given()

def class_():
    class Given: ...
    class Holder:
        @md.generic
        def probe(x: Any, /) -> Result: "Of one."
        @md.method(probe)
        @staticmethod
        def one(x: Given, /) -> Result: return x
    return Holder.probe, Given()
globals()["class"] = class_
"""


def test_a_declaration_keeps_the_annotations_that_it_can_read() -> None:
    """One name for type checkers only does not switch off the checks of the others."""
    space: dict[str, Any] = {"__name__": __name__, "md": md}
    exec(
        "from __future__ import annotations\n"
        "@md.generic\n"
        "def probe(x: md.Tensor, /, *, size: int = 1) -> Result: 'Of one.'\n"
        "@md.method(probe)\n"
        "def probe(x: object, /, *, size: int) -> Result: return size\n",
        space,
    )
    assert space["probe"](md.asarray(1), size=2) == 2
    with pytest.raises(md.NoMethodError):
        space["probe"]("text")
    with pytest.raises(md.OptionError):
        space["probe"](md.asarray(1), size="2")
