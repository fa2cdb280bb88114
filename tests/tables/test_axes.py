"""Axes and the points of their product."""

import itertools
import math
import pickle
from typing import Any

import pytest

import mdtensor as md
from mdtensor.errors import DispatchError, RegistrationError
from mdtensor.tables import (
    Adaptive,
    Axes,
    Axis,
    Contiguity,
    Contiguous,
    Coordinate,
    Cpu,
    Cuda,
    ElementType,
    Float32,
    Float64,
    Floating,
    InPlace,
    Int8,
    Placement,
    Strided,
    Tag,
)


class Read(Coordinate, of=ElementType):
    """A second axis of element types."""


DEVICES, FLOATS = Axis(Cpu, Cuda), Axis(Float32, Float64)
SPACE = Axes(DEVICES, FLOATS, Axis.full(Contiguity))


def text(error: type[Exception], make: Any) -> str:
    with pytest.raises(error) as caught:
        make()
    return str(caught.value)


def test_an_axis_is_a_tuple_of_coordinates() -> None:
    assert (len(FLOATS), FLOATS[1], list(FLOATS)) == (2, Float64, [Float32, Float64])
    assert Float64 in FLOATS
    assert Int8 not in FLOATS
    assert FLOATS == Axis(Float32, Float64) != Axis(Float64, Float32)
    assert repr(FLOATS) == "Axis(Float32, Float64)"


def test_axes_have_no_order() -> None:
    for axes in itertools.permutations(SPACE.axes):
        assert Axes(*axes) == SPACE
        assert hash(Axes(*axes)) == hash(SPACE)
    assert Axes(DEVICES) != Axes(Axis(Cpu)) != Axes(FLOATS)
    assert SPACE != 3


def test_the_points_are_the_product() -> None:
    assert len(SPACE) == math.prod(SPACE.extents) == 8
    assert SPACE.extents == (2, 2, 2)
    points = list(SPACE)
    assert len(set(points)) == 8
    assert points == [Tag[p] for p in itertools.product(*SPACE.axes)]
    assert all(point in SPACE for point in points)
    assert Tag[Cpu, Float32] not in SPACE
    assert Tag[Cpu, Int8, Strided] not in SPACE
    assert Tag[Cpu, Float32, InPlace] not in SPACE
    assert 3 not in SPACE


def test_a_space_within_another() -> None:
    assert Axes(Axis(Cpu), FLOATS, Axis(Strided)) <= SPACE <= SPACE
    assert not Axes(Axis(Cpu), Axis(Int8), Axis(Strided)) <= SPACE
    assert not Axes(Axis(Cpu), FLOATS) <= SPACE
    with pytest.raises(TypeError):
        SPACE <= 3  # noqa: B015


def test_a_point_from_classes_values_and_tags_in_any_order() -> None:
    wanted = Tag[Cpu, Float64, Strided]
    for given in itertools.permutations((Cpu, md.float64, Strided)):
        assert SPACE.point(*given) is wanted
    assert SPACE.point(wanted) is SPACE.point(Tag[Cpu, Strided], Float64) is wanted
    assert SPACE.point(md.cuda, md.int8, Strided) is Tag[Cuda, Int8, Strided]


def test_two_axes_of_one_kind_have_names() -> None:
    space = Axes(FLOATS, Axis(Read[Float32], Read[Int8]))
    assert len(space) == 4
    assert space.point(Read[Int8], Float32) is Tag[Float32, Read[Int8]]
    said = text(DispatchError, lambda: space.point(md.float32, md.int8))
    assert said.startswith(
        "float32 is ambiguous: the value of Float32 and of Read[Float32]. Give"
    )


ONE_KIND = "Give coordinates of one kind"
A_KIND = "Give a kind such as ElementType, or a class of it such as Floating"
CLASSES = "Give classes such as Float32; Axis.full(kind) has all of a kind"
NAME_ONE = "Name one: class Other(Coordinate, of=ElementType)"
AXIS_ERRORS: list[tuple[Any, str]] = [
    (
        lambda: Axis(),
        ("an axis has at least one coordinate. Give classes such as Float32."),
    ),
    (
        lambda: Axis(Cpu, Float32),
        f"Cpu is of DeviceType, Float32 of ElementType. {ONE_KIND}.",
    ),
    (
        lambda: Axis(Cpu, Cuda, Cpu),
        ("Cpu is twice on the axis DeviceType. Give it once."),
    ),
    (lambda: Axis(Placement), f"Placement is not a coordinate. {CLASSES}."),
    (lambda: Axis(1, 2.0), f"1 is not a coordinate. {CLASSES}."),
    (lambda: Axis.full(3), f"3 is not a class of coordinates. {A_KIND}."),
    (
        lambda: Axes(),
        ("a space needs at least one axis. Pass one Axis(...) for each axis."),
    ),
    (lambda: Axes(Float32), "Float32 is not an axis. Use Axis(...)."),
    (
        lambda: Axes(FLOATS, DEVICES, Axis(Int8)),
        f"two axes are of ElementType. {NAME_ONE}.",
    ),
]


@pytest.mark.parametrize(("make", "said"), AXIS_ERRORS)
def test_what_is_no_space_is_refused(make: Any, said: str) -> None:
    assert text(RegistrationError, make) == said


POINT_ERRORS = [
    ((Cpu, Float32), "there is no coordinate of Contiguity"),
    ((Cpu, Float32, Strided, Contiguous), "there are two coordinates of Contiguity"),
    ((Cpu, Float32, Strided, Adaptive), "Scheduling is not an axis of the space"),
    ((Cpu, 1.0, Strided), "1.0 is not a coordinate of this space"),
    ((Cpu, Tag, Strided), "there is no coordinate of ElementType"),
]


@pytest.mark.parametrize(("given", "problem"), POINT_ERRORS)
def test_what_is_no_point_is_refused(given: Any, problem: str) -> None:
    fix = "Give one class or value for each of DeviceType, ElementType, Contiguity"
    assert text(DispatchError, lambda: SPACE.point(*given)) == f"{problem}. {fix}."


def test_spaces_do_not_change() -> None:
    with pytest.raises(AttributeError, match="a space does not change"):
        SPACE.axes = ()
    for one in (SPACE, FLOATS, Axes(FLOATS, Axis(Read[Float32], Read[Floating]))):
        again = pickle.loads(pickle.dumps(one))
        assert again == one
        assert type(again) is type(one)
