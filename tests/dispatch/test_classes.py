"""Classes that end, and abstract classes that accept more classes later."""

import abc
import contextlib
import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np
import plum
import pytest

import mdtensor as md
from mdtensor.dispatch import classes
from mdtensor.errors import MdtensorError, NoMethodError, RegistrationError

pytestmark = pytest.mark.usefixtures("registered_as_before")
X = md.asarray([1.0, 2.0], dtype=md.float32)
CODES = md.quant.QInt8Tensor([1], scale=0.5)


def declare() -> Any:
    @md.generic
    def probe(x: Any, /) -> Any:
        """Of one object."""

    @md.method(probe)
    def any_object(x: object, /) -> Any:
        return "object"

    return probe


def survivors(call: Callable[[Any], Any], base: type = object) -> int:
    """Return how many of 20 classes live on after a call with an instance of each."""
    refs = []
    for at in range(20):
        kind: Any = type(f"Fleeting{at}", (base,), {})
        with contextlib.suppress(MdtensorError):
            call(kind())
        refs.append(weakref.ref(kind))
    del kind
    gc.collect()
    return sum(one() is not None for one in refs)


def test_classes_end_after_calls_that_ran() -> None:
    probe = declare()
    assert survivors(probe) == 0
    assert survivors(lambda x: probe.select(type(x))) == 0
    assert survivors(lambda x: md.which(probe, x)) == 0


NUMBERS = {
    "add": lambda x: md.add(X, x),
    "reflected": lambda x: x * X,
    "result_type": lambda x: md.result_type(X, x),
    "clip": lambda x: md.clip(X, x, x),
    "clip codes": lambda x: md.clip(CODES, x),
    "isin": lambda x: md.isin(X, x),
    "searchsorted": lambda x: md.searchsorted(X, x),
    "repeats": lambda x: md.repeat(X, x),
    "shift": lambda x: md.roll(X, x),
}


@pytest.mark.parametrize("base", [int, float])
@pytest.mark.parametrize("name", NUMBERS)
def test_classes_of_numbers_end(name: str, base: type) -> None:
    assert survivors(NUMBERS[name], base) == 0


REFUSED = {
    "add": lambda x: md.add(X, x),
    "operator": lambda x: X + x,
    "reflected": lambda x: x + X,
    "codes": lambda x: md.add(CODES, x),
    "sequence": lambda x: md.concat([X, x]),
    "option": lambda x: md.sum(X, axis=x),
    "index": lambda x: X[x],
    "infer": lambda x: md.infer(md.add, X, x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_classes_end_after_calls_that_raised(name: str) -> None:
    assert survivors(REFUSED[name]) == 0


def test_kinds_of_tensors_end() -> None:
    def select(at: int) -> Any:
        kind = type(f"Kind{at}", (md.FloatingTensor,), {"__slots__": ()})
        md.add.select(kind, kind)
        return weakref.ref(kind)

    refs = [select(at) for at in range(20)]
    gc.collect()
    assert all(one() is None for one in refs)


def test_the_call_table_holds_what_lives_on() -> None:
    probe = declare()
    local = type("Local", (), {})
    for x in (1, "text", np.ones(1), X, local()):
        assert probe(x) == probe(x) == "object"
    assert set(probe.operation.table) == {int, str, np.ndarray, md.Float32Tensor}


def test_the_call_table_holds_classes_that_a_method_names() -> None:
    probe = declare()
    local = type("Local", (), {})

    @md.method(probe, types=(local,))
    def named(x: Any, /) -> Any:
        return "named"

    assert probe(local()) == "named"
    assert set(probe.operation.table) == {local}
    for method in probe.operation.methods[1:]:
        probe.operation.remove_method(method)
    assert probe(local()) == "object"
    assert not probe.operation.table, "nothing else keeps the class"


def test_many_classes_fill_no_memory() -> None:
    probe = declare()
    alive = [type(f"Alive{at}", (), {}) for at in range(3 * classes._MANY)]
    for kind in alive:
        assert probe(kind()) == "object"
    assert len(probe.operation._fleeting._methods) <= classes._MANY
    del alive, kind
    gc.collect()
    assert probe(type("One", (), {})()) == "object"


def test_a_class_that_is_registered_later_is_seen() -> None:
    Base: Any = abc.ABCMeta("Base", (), {})

    class Given: ...

    probe = declare()

    @md.method(probe)
    def of_base(x: Base, /) -> Any:
        return "base"

    # Also types that live on, which a call table would hold.
    for kind in (Given, str, md.Float32Tensor):
        x: Any = X if kind is md.Float32Tensor else kind()
        assert probe(x) == probe(x) == "object"
        assert md.which(probe, x).method.implementation.__name__ == "any_object"
        Base.register(kind)
        assert probe(x) == probe(x) == "base"
        assert md.which(probe, x).method.implementation is of_base_of(probe)


def of_base_of(probe: Any) -> Any:
    return probe.operation.methods[1].implementation


def test_a_miss_does_not_stick() -> None:
    Base: Any = abc.ABCMeta("Base", (), {})

    class Given: ...

    @md.generic
    def probe(x: Any, /) -> Any:
        """Of a base."""

    @md.method(probe)
    def probe(x: Union[Base, None], /) -> Any:
        return "base"

    with pytest.raises(NoMethodError):
        probe(Given())
    Base.register(Given)
    assert probe(Given()) == "base"

    @md.generic
    def declared(x: Base, /) -> Any:
        """The declaration has the abstract class."""

    @md.method(declared)
    def declared(x: object, /) -> Any:
        return "any"

    class Late: ...

    with pytest.raises(NoMethodError):
        declared(Late())
    Base.register(Late)
    assert declared(Late()) == "any"


def test_a_settled_call_of_an_open_operation_reads_the_table() -> None:
    """`register` cannot change it: its argument fits the abstract class already."""

    Base: Any = abc.ABCMeta("Base", (), {})

    probe = declare()

    @md.method(probe)
    def of_base(x: Base, /) -> Any:
        return "base"

    Base.register(int)
    assert probe(1) == "base"
    assert int in probe.operation.table
    assert probe("text") == "object"
    assert str not in probe.operation.table


class NotForRunTime(Protocol):
    def name(self) -> str: ...


@runtime_checkable
class WithData(Protocol):
    size: int


@runtime_checkable
class Named(Protocol):
    def name(self) -> str: ...


class Odd(type):
    def __subclasscheck__(cls, other: type) -> bool:
        raise ValueError("odd")


@pytest.mark.parametrize("kind", [NotForRunTime, WithData, Odd("Strange", (), {})])
@pytest.mark.parametrize("way", ["annotation", "types", "union"])
def test_what_python_cannot_test_is_no_annotation(kind: Any, way: str) -> None:
    probe = declare()

    def strange(x, /):  # type: ignore[no-untyped-def]
        return x

    strange.__annotations__ = {"x": Union[kind, None] if way == "union" else kind}
    types = (kind,) if way == "types" else None
    with pytest.raises(RegistrationError, match="cannot test at run time") as caught:
        md.method(probe, types=types)(strange)
    assert ("runtime_checkable" in str(caught.value)) is (type(kind) is not Odd)
    assert probe("text") == "object"


class OfMatrices(type):
    """The metaclass of a class of shapes, as libraries of array annotations have."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, np.ndarray) and one.ndim == 2


class OfFlags(OfMatrices):
    """A metaclass that also decides by classes, which dispatch can ask."""

    def __subclasscheck__(cls, other: type) -> bool:
        return getattr(other, "flag", False)


@pytest.mark.parametrize("way", ["annotation", "types", "union"])
def test_a_class_that_tests_objects_is_no_annotation(way: str) -> None:
    """`isinstance` finds matrices; a method chosen by classes would never run."""
    probe, matrix = declare(), OfMatrices("Matrix", (), {})
    assert isinstance(np.eye(2), matrix)

    def of_matrices(x, /):  # type: ignore[no-untyped-def]
        return x

    hint: Any = Union[matrix, None] if way == "union" else matrix
    of_matrices.__annotations__ = {"x": hint}
    types = (matrix,) if way == "types" else None
    with pytest.raises(RegistrationError, match="Matrix, whose metaclass tests each"):
        md.method(probe, types=types)(of_matrices)
    assert probe(np.eye(2)) == "object"


def test_a_class_that_tests_classes_is_an_annotation() -> None:
    probe, flagged = declare(), OfFlags("Flagged", (), {})

    def of_flags(x, /):  # type: ignore[no-untyped-def]
        return "flagged"

    md.method(probe, types=(flagged,))(of_flags)
    assert probe(type("Has", (), {"flag": True})()) == "flagged"
    assert probe("text") == "object"


def test_a_protocol_for_run_time_is_an_annotation() -> None:
    probe = declare()

    @md.method(probe)
    def of_named(x: Named, /) -> Any:
        return "named"

    assert probe(type("HasName", (), {"name": lambda self: "me"})()) == "named"
    assert probe("text") == "object"


def test_classes_fit_as_plum_says() -> None:
    """Exhaustive over classes, unions, Any and None; and so is the order of hints."""
    kinds: list[Any] = [object, int, bool, type(None), md.Tensor, md.IntegerTensor]
    hints = [*kinds, Any, Union[int, md.Tensor], Union[bool, None], int | str]
    for given, hint in itertools.product(kinds, hints):
        wanted = plum.Signature(given) <= plum.Signature(hint)
        assert classes.fits(given, hint) is wanted, (given, hint)
    for narrow, wide in itertools.product(hints, repeat=2):
        wanted = plum.Signature(narrow) <= plum.Signature(wide)
        assert classes.is_below(narrow, wide) is wanted, (narrow, wide)


def test_tensors_can_be_referred_to_weakly() -> None:
    for make in (lambda: md.asarray([1.0]), lambda: md.quant.QInt8Tensor([1], scale=1)):
        x = make()
        one = weakref.ref(x)
        assert one() is x
        del x
        assert one() is None
