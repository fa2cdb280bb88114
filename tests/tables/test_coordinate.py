"""Coordinates: classes with an order, found by value."""

import copy
import pickle

import pytest

import mdtensor as md
from mdtensor import tables
from mdtensor.errors import OptionError, RegistrationError
from mdtensor.tables import (
    Axis,
    BlockSize,
    Coordinate,
    Cpu,
    Cuda,
    DeviceType,
    ElementType,
    Float32,
    Floating,
    InPlace,
    Int8,
    Integer,
    Placement,
    Signed,
    Strided,
)


class Side(Coordinate, values=("left", "right")):
    """A kind with a coordinate for each value."""


class Written(Coordinate, of=ElementType):
    """Element types once more, for a second axis."""


FLOATS = Axis.full(Floating)


def test_a_coordinate_is_below_its_kind() -> None:
    assert issubclass(Float32, Floating)
    assert issubclass(Floating, ElementType)
    assert not issubclass(Int8, Floating)
    assert (Float32.kind, Floating.kind, ElementType.kind) == (ElementType,) * 3
    assert (InPlace.kind, Strided.kind.__name__) == (Placement, "Contiguity")


def test_names_are_what_one_writes() -> None:
    assert [str(c) for c in (InPlace, BlockSize[64], Side["left"])] == [
        "InPlace",
        "BlockSize[64]",
        "Side[left]",
    ]
    assert repr(InPlace) == "<InPlace>"


@pytest.mark.parametrize("leaf", md.leaves()[:15], ids=lambda leaf: leaf.__name__)
def test_every_element_type_has_its_coordinate(leaf: type[md.Tensor]) -> None:
    found = ElementType[leaf.dtype]
    assert f"{found}Tensor" == leaf.__name__
    assert found.value is leaf.dtype
    kinds = {tables.Integer: md.IntegerTensor, tables.Signed: md.SignedTensor}
    kinds |= {Floating: md.FloatingTensor, tables.Complex: md.ComplexTensor}
    for kind, abstract in kinds.items():
        assert issubclass(found, kind) == issubclass(leaf, abstract)


def test_a_device_is_found_by_itself_and_by_its_name() -> None:
    assert DeviceType[md.cpu] is DeviceType["cpu"] is Cpu
    assert DeviceType[md.cuda] is DeviceType["cuda:1"] is DeviceType["cuda"] is Cuda


def test_values_make_coordinates() -> None:
    assert [size.value for size in Axis.full(BlockSize)] == [64, 128, 256, 512, 1024]
    assert BlockSize[128] is BlockSize[128]
    assert issubclass(BlockSize[128], BlockSize)
    assert Side["left"].value == "left"


def test_a_kind_is_searched_from_where_it_is_asked() -> None:
    assert Floating[md.float32] is Float32
    assert Floating.find(md.int8) is None
    assert ElementType.find(3) is None
    assert ElementType.find([1]) is None


def test_what_is_not_there_is_an_error_with_what_is() -> None:
    with pytest.raises(OptionError) as caught:
        BlockSize[96]
    assert str(caught.value) == (
        "BlockSize has no coordinate 96. Known are 64, 128, 256, 512, 1024."
    )
    with pytest.raises(OptionError, match="Placement has no coordinate Float32"):
        Placement[Float32]


def test_the_root_is_no_kind() -> None:
    with pytest.raises(OptionError, match=r"Coordinate is not a kind. Use a kind, as"):
        Coordinate[64]
    with pytest.raises(RegistrationError, match="Coordinate is not a class of coord"):
        Axis.full(Coordinate)
    with pytest.raises(RegistrationError, match="Coordinate is not a coordinate"):
        Axis(Coordinate)


def test_a_value_has_one_coordinate() -> None:
    with pytest.raises(RegistrationError) as caught:
        type(Cpu)("Host", (DeviceType,), {}, value="cpu")
    assert str(caught.value) == "DeviceType already has Cpu for the value cpu. Use Cpu."
    assert "Host" not in map(str, Axis.full(DeviceType))
    assert DeviceType["cpu"] is Cpu


def test_a_coordinate_is_of_one_kind() -> None:
    with pytest.raises(RegistrationError) as caught:
        type(Cpu)("Both", (InPlace, Float32), {})
    assert str(caught.value) == "Both derives from InPlace and Float32. Choose one."


def test_a_renamed_kind_has_the_same_order() -> None:
    wide, narrow = Written[Floating], Written[md.float32]
    assert narrow is Written[Float32]
    assert issubclass(narrow, wide)
    assert issubclass(wide, Written)
    assert not issubclass(narrow, Float32)
    assert narrow.kind is Written
    assert narrow.value is Float32
    assert set(Axis.full(Written)) == {Written[c] for c in Axis.full(ElementType)}
    assert list(Axis.full(Written[Floating])) == [Written[c] for c in FLOATS]
    assert issubclass(Written[Int8], Written[Signed])
    assert issubclass(Written[Signed], Written[Integer])
    with pytest.raises(OptionError, match="Written has no coordinate InPlace"):
        Written[InPlace]


@pytest.mark.parametrize(
    "one", [Coordinate, Placement, InPlace, Float32, BlockSize[64], Written[Floating]]
)
def test_pickle_and_copy_give_the_same_class(one: type) -> None:
    assert pickle.loads(pickle.dumps(one)) is one
    assert copy.deepcopy(one) is copy.copy(one) is one


def test_all_of_a_kind() -> None:
    assert str(FLOATS) == "Axis(Float16, BFloat16, Float32, Float64)"
    assert len(Axis.full(Signed)) == 4
    assert len(Axis.full(Integer)) == 8
    assert len(Axis(*Axis.full(Floating), *Axis.full(Signed))) == 8
