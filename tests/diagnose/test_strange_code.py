"""What public packages contain: annotations by value, decorated classes, registries."""

import sys
import types
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Union, runtime_checkable

import plum
import pytest

from mdtensor.diagnose import analyze
from mdtensor.diagnose.hints import hint
from mdtensor.diagnose.source import functions_of
from mdtensor.diagnose.universe import universe_of
from mdtensor.diagnose.values import masks_by_value


class First: ...


class Second: ...


class Both(First, Second): ...


class Other: ...


def rules(dispatch: plum.Dispatcher) -> list[str]:
    found = analyze(dispatch).of("MDT001", "MDT004")
    return sorted(finding.rule for finding in found)


def test_classes_without_a_common_one_do_not_tie() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def make(kind: type[First], of: Any): ...
    @dispatch
    def make(kind: type[Other], of: Any): ...

    assert rules(dispatch) == []
    assert make.methods and make._resolver.resolve((First, 1))


def test_classes_with_a_common_one_do_tie() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def make(kind: type[First]): ...
    @dispatch
    def make(kind: type[Second]): ...

    assert rules(dispatch) == ["MDT001"]
    with pytest.raises(plum.AmbiguousLookupError):
        make(Both)


def test_a_method_for_other_values_is_not_dead() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def make(kind: type): ...
    @dispatch
    def make(kind: type[First]): ...
    @dispatch
    def make(kind: list): ...
    @dispatch
    def make(kind: list[int]): ...

    assert rules(dispatch) == []


def test_literals_tie_only_for_a_common_value() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def pick(a: Literal[1], b: int): ...
    @dispatch
    def pick(a: Literal[2], b: Any): ...
    @dispatch
    def pick(a: int, b: Literal[3]): ...

    found = analyze(dispatch).of("MDT001")
    assert [len(f.methods) for f in found] == [2, 2]
    for first in (1, 2):
        with pytest.raises(plum.AmbiguousLookupError):
            pick(first, 3)


@pytest.mark.parametrize(
    ("annotations", "cls", "wanted"),
    [
        ((Literal[True], Literal[False]), bool, {0b01, 0b10}),
        ((Literal[1], int), int, {0b11, 0b10}),
        ((type[Any], type[First]), type, {0b01, 0b11}),
        ((Union[type[First], int], type[Other]), type, {0b01, 0b10, 0b00}),
        ((type, type[First]), ABCMeta, {0b01}),
        ((list[int], list[str]), list, {0b11}),
        ((int, Any), int, {0b11}),
    ],
    ids=str,
)
def test_masks_by_value(
    annotations: tuple[Any, ...], cls: type, wanted: set[int]
) -> None:
    assert masks_by_value([hint(each) for each in annotations], cls) == wanted


def test_a_parametric_class_is_one_class() -> None:
    class Base: ...

    @plum.parametric
    class Boxed(Base): ...

    dispatch = plum.Dispatcher()

    @dispatch
    def open(box: Base): ...

    universe = universe_of([*map(source, [open])])
    assert [c for c in universe.types if c.__name__ == "Boxed"] == [Boxed]
    assert analyze(open).of("MDT008") == ()


def source(function: object) -> Any:
    from mdtensor.diagnose.source import source as read

    return read(function)


def test_a_dataclass_with_slots_is_one_class() -> None:
    class Base:
        __slots__ = ()

    @dataclass(slots=True)
    class Point(Base):
        x: int

        # The cell of `super` keeps the first class alive.
        def name(self) -> type:
            return super().__class__

    dispatch = plum.Dispatcher()

    @dispatch
    def move(point: Base): ...

    universe = universe_of([source(move)])
    assert [c for c in universe.types if c.__name__ == "Point"] == [Point]
    assert analyze(move).of("MDT008") == ()


@runtime_checkable
class Named(Protocol):
    fields: ClassVar[dict[str, Any]]


def test_a_protocol_with_data_ends_no_analysis() -> None:
    dispatch = plum.Dispatcher()

    @dispatch
    def show(x: Named): ...
    @dispatch
    def count(x: Union[dict[str, int], list[int]]): ...
    @dispatch
    def name(x: Union[Named, list[int]]): ...

    assert analyze(dispatch).of("MDT009") == ()


REGISTRY = """
import plum

RULES = {}

def add(x: int): ...

RULES["add"] = plum.Function(add)
RULES["add"].register(add)

def encodes(x: int): ...

class Holder:
    function = plum.Function(encodes)

Holder.function.register(encodes)
"""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """Return a module whose functions are in a dict and in a class."""
    module = types.ModuleType("registry_of_rules")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(REGISTRY, vars(module))
    yield module


def test_functions_without_a_name_are_found(registry: types.ModuleType) -> None:
    found = functions_of(["registry_of_rules"])
    assert {f.__name__ for f in found} == {"add", "encodes"}
    # A module that was imported again has no part in the functions of its old self.
    again = types.ModuleType("registry_of_rules")
    sys.modules["registry_of_rules"] = again
    assert functions_of(["registry_of_rules"]) == ()


LATE = """
import plum

dispatch = plum.Dispatcher()

class Element:
    @dispatch
    def same(self, other: "One"): ...

class One(Element): ...
"""


def test_a_class_that_is_named_before_it_exists_is_one_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("late_names")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(LATE, "late_names.py", "exec", dont_inherit=True), vars(module))
    # At the first call beartype looks for the name, and leaves a stand-in.
    assert module.One().same(module.One()) is None
    report = analyze(functions_of(["late_names"]))
    assert report.of("MDT008") == ()
    universe = universe_of(map(source, functions_of(["late_names"])))
    assert [c for c in universe.types if c.__name__ == "One"] == [module.One]
