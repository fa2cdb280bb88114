"""Tags: sets of coordinates that are classes."""

import copy
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Union

import plum
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import DispatchError, OptionError, RegistrationError
from mdtensor.tables import (
    Axes,
    Axis,
    BlockSize,
    Contiguity,
    Contiguous,
    Coordinate,
    Cpu,
    Cuda,
    DeviceType,
    ElementType,
    Float32,
    Float64,
    Floating,
    InPlace,
    Int32,
    Integer,
    Placement,
    Required,
    Strided,
    Tag,
)

KINDS: list[list[Any]] = [
    [Cpu, Cuda, DeviceType],
    [Float32, Float64, Int32, Floating, Integer, ElementType],
    [Strided, Contiguous, Contiguity],
    [InPlace, Placement],
]
SPACE = Axes(
    Axis(Cpu, Cuda),
    Axis(Float32, Float64, Int32),
    Axis.full(Contiguity),
    Axis.full(Placement),
)


@st.composite
def tags(draw: st.DrawFn) -> Any:
    picked = [draw(st.sampled_from([None, *kind])) for kind in KINDS]
    found = draw(st.permutations([one for one in picked if one is not None]))
    return Tag[tuple(found)] if found else Tag


def test_order_makes_no_difference() -> None:
    every = Cuda, Float32, InPlace, Contiguous
    assert len({Tag[order] for order in itertools.permutations(every)}) == 1
    assert str(Tag[InPlace, Float32, Cuda]) == "Tag[Cuda, Float32, InPlace]"


def test_a_tag_belongs_to_who_declared_a_part_of_it() -> None:
    """So that a method for it is no piracy."""

    class Mine(Coordinate, values=(1,)):
        """A stranger's."""

    assert Tag[Cpu, Float32].__module__.startswith("mdtensor.tables")
    assert Tag[Cpu, Mine[1]].__module__ == Mine.__module__ == __name__


def test_eight_threads_make_one_tag() -> None:
    class Fresh(Coordinate, values=tuple(range(50))):
        """So that no tag is there yet."""

    for value in range(50):
        with ThreadPoolExecutor(8) as pool:
            made = set(pool.map(lambda _: Tag[Fresh[value], Cpu], range(8)))  # noqa: B023
        assert len(made) == 1


def test_more_and_narrower_coordinates_are_below() -> None:
    assert issubclass(Tag[Cpu, Float32], Tag[Cpu])
    assert issubclass(Tag[Cpu, Float32], Tag[Floating])
    assert issubclass(Tag[Cpu, Float32], Tag[ElementType])
    assert not issubclass(Tag[Cpu], Tag[Cpu, Float32])
    assert not issubclass(Tag[Cpu, Int32], Tag[Cpu, Floating])
    assert not issubclass(Tag[Cpu, Float32], Tag[Placement])
    assert not issubclass(int, Tag[Cpu])
    assert issubclass(Tag[Cpu], Tag)


@given(tags(), tags(), tags())
def test_tags_are_partly_ordered(a: Any, b: Any, c: Any) -> None:
    assert issubclass(a, a)
    assert (issubclass(a, b) and issubclass(b, a)) == (a is b)
    if issubclass(a, b) and issubclass(b, c):
        assert issubclass(a, c)


@given(tags(), tags())
def test_below_means_at_fewer_points(a: Any, b: Any) -> None:
    """Against the meaning: the points of a space that a tag fits."""
    if issubclass(a, b):
        inside = {point for point in SPACE if issubclass(point, a)}
        assert inside <= {point for point in SPACE if issubclass(point, b)}


@given(tags(), tags())
def test_has_is_the_order(a: Any, b: Any) -> None:
    if b is not Tag:
        assert a.has(*b.coordinates) == issubclass(a, b)


def test_an_instance_is_there_once_and_is_of_all_wider_tags() -> None:
    tag = Tag[Cpu, Float32]()
    assert tag is Tag[Float32, Cpu]()
    assert isinstance(tag, Tag[Cpu])
    assert not isinstance(tag, Tag[Cuda])
    assert not isinstance(3, Tag)
    assert repr(tag) == "Tag[Cpu, Float32]()"


def test_get_add_drop() -> None:
    tag = Tag[Cpu, Float32]
    assert tag.get(ElementType) is Float32
    assert tag.get(ElementType, DeviceType) == (Float32, Cpu)
    assert tag().get(DeviceType) is Cpu
    assert tag.add(Float64) is Tag[Cpu, Float64]
    assert tag.add(InPlace, BlockSize[64]) is Tag[Cpu, Float32, InPlace, BlockSize[64]]
    assert tag.add() is tag
    assert tag.drop(ElementType) is Tag[Cpu]
    assert tag.drop(Placement) is tag
    assert Tag.add(Cpu) is Tag[Cpu]
    assert Tag[Cpu][Float32] is tag


@given(tags(), st.sampled_from([Cpu, Float32, Floating, Contiguous, InPlace]))
def test_add_replaces_one_of_its_kind_and_nothing_else(tag: Any, one: Any) -> None:
    added = tag.add(one)
    assert added.get(one.kind) is one
    assert added.add(one) is added
    others = [c for c in tag.coordinates if c.kind is not one.kind]
    assert set(added.coordinates) == {*others, one}


def text(error: type[Exception], make: Any) -> str:
    with pytest.raises(error) as caught:
        make()
    return str(caught.value)


def test_what_is_no_tag_is_refused() -> None:
    assert text(RegistrationError, lambda: Tag[Float32, Cpu, Float64]) == (
        "Float32 and Float64 are both of ElementType. A tag has one coordinate of a "
        "kind."
    )
    assert text(RegistrationError, lambda: Tag[Cpu, Cpu]) == (
        "Cpu and Cpu are both of DeviceType. A tag has one coordinate of a kind."
    )
    assert text(RegistrationError, lambda: Tag[()]) == (
        "a tag has at least one coordinate. Use Tag for any."
    )
    assert text(RegistrationError, lambda: Tag[Cpu].drop(DeviceType)) == (
        "a tag has at least one coordinate. Use Tag for any."
    )
    for bad, shown in (
        (int, "int"),
        (3, "3"),
        ([], "list"),
        (Coordinate, "Coordinate"),
    ):
        assert text(RegistrationError, lambda bad=bad: Tag[Cpu, bad]) == (
            f"{shown} is not a coordinate. Give classes such as Cpu, Float32, InPlace."
        )
    x = md.asarray([1.0])
    assert "Float32Tensor is not a coordinate" in text(
        RegistrationError, lambda: Tag[x]
    )
    for bad, shown in ((ElementType, "ElementType"), (3, "3"), (int, "int")):
        assert text(OptionError, lambda bad=bad: Tag[Cpu].get(bad)) == (
            f"Tag[Cpu] has no coordinate of {shown}."
        )
    for ask in (Tag[Cpu].has, Tag[Cpu].add):
        assert "3 is not a coordinate" in text(
            RegistrationError, lambda ask=ask: ask(3)
        )


@pytest.mark.parametrize("tag", [Tag, Tag[Cpu], Tag[Cpu, Floating, BlockSize[64]]])
def test_pickle_and_copy_give_the_same_class(tag: Any) -> None:
    assert pickle.loads(pickle.dumps(tag)) is tag
    assert copy.deepcopy(tag) is copy.copy(tag) is tag
    if tag is not Tag:
        assert pickle.loads(pickle.dumps(tag())) is tag()


def test_plum_needs_no_instance_to_decide() -> None:
    for hint in (Tag, Tag[Cpu], Tag[Cpu, Floating], Cpu, Union[Tag[Cpu], Tag[Cuda]]):
        assert plum.is_faithful(hint)


def test_methods_for_tags_follow_the_rules_of_methods() -> None:
    @md.generic
    def place(tag: Any, /) -> Any:
        """Where."""

    @md.method(place)
    def place(tag: Tag[Cpu], /) -> str:
        return "cpu"

    @md.method(place)
    def place(tag: Tag[Cpu, Floating], /) -> str:
        return "cpu, floats"

    @md.method(place)
    def place(tag: Union[Tag[Cuda, Floating], Tag[Cuda, Integer]], /) -> str:
        return "cuda, numbers"

    assert place(Tag[Cpu]()) == place(Tag[Cpu, Int32, InPlace]()) == "cpu"
    assert place(Tag[Float32, Cpu, Required]()) == "cpu, floats"
    assert place(Tag[Cuda, Int32]()) == "cuda, numbers"
    said = text(DispatchError, lambda: place(Tag[Cuda, ElementType]()))
    assert said.startswith("place(Tag[Cuda, ElementType]): no method: tag is ")

    @md.method(place)
    def place(tag: Tag[Cpu, InPlace], /) -> str:
        return "in place"

    said = text(DispatchError, lambda: place(Tag[Cpu, Float32, InPlace]()))
    assert "more than one method fits. Fitting: place(Tag[Cpu" in said
