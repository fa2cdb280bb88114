"""The coordinates that tensors have."""

from typing import Any

import numpy as np
import pytest
from support.shelf import shelved

import mdtensor as md
from mdtensor.errors import DeviceError, DispatchError, OptionError, PromotionError
from mdtensor.tables import (
    Contiguous,
    Cpu,
    DeviceType,
    ElementType,
    Float32,
    InPlace,
    OutOfPlace,
    Strided,
    contiguity,
    device_type,
    element_type,
    placement,
)

X = md.zeros((4, 6))


def test_device_and_element_type() -> None:
    n = md.zeros(2, dtype=md.int32)
    assert (device_type(X), device_type(X, n)) == (Cpu, Cpu)
    assert (element_type(X), element_type(X, X)) == (Float32, Float32)
    with pytest.raises(PromotionError) as caught:
        element_type(X, n)
    assert str(caught.value) == (
        "element_type(Float32Tensor[4,6], Int32Tensor[2]): elements of float32 and "
        "int32. Use astype first."
    )
    with pytest.raises(DeviceError, match="on no device"):
        device_type()


@pytest.mark.parametrize("read", [device_type, element_type, contiguity, placement])
def test_only_tensors_have_coordinates(read: Any) -> None:
    for given, shown in ((X.buffer, "ndarray"), (3, "int"), (None, "NoneType")):
        with pytest.raises(
            DispatchError, match=f"{shown} is not a tensor. Use asarray"
        ):
            read(given)
        if given is not None:
            with pytest.raises(
                DispatchError, match=rf"Tensor\[4,6\], {shown}.*is not a"
            ):
                read(X, given)


def test_two_devices_are_refused() -> None:
    from support.scan import Shelf  # declares the coordinate of the device

    with shelved([md.float32]) as shelf:
        far = X.to(shelf)
        assert device_type(far) is DeviceType[shelf] is Shelf
        assert contiguity(far) is Contiguous
        assert placement(X, far) is OutOfPlace
        with pytest.raises(DeviceError) as caught:
            device_type(X, far)
    assert str(caught.value) == (
        "device_type(Float32Tensor[4,6], ShelfFloat32Tensor[4,6]): the tensors are on "
        "cpu and shelf. "
        "Move all to one with to(device)."
    )


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        (X, Contiguous),
        (X[1:3], Contiguous),
        (X.T, Strided),
        (X[:, 1:], Strided),
        (X[::2], Strided),
        (md.broadcast_to(X[:1], (4, 6)), Strided),
        (md.zeros(()), Contiguous),
        (md.zeros((0, 3)).T, Contiguous),
        (md.zeros((1, 5)).T, Contiguous),
    ],
)
def test_contiguity_is_one_decision_for_all(view: md.Tensor, wanted: type) -> None:
    """All of them dense: one kernel; any of them not: the other one. Not 2**n."""
    assert contiguity(view) is wanted
    assert contiguity(X, view) is contiguity(view, X) is wanted
    assert contiguity(X, X, view, X) is wanted


def test_placement_is_where_the_elements_are() -> None:
    assert placement(X) is OutOfPlace
    assert placement(X, md.zeros((4, 6))) is OutOfPlace
    assert placement(X, X) is InPlace
    assert placement(X, type(X).wrap(X.buffer)) is InPlace
    assert placement(X[1:], X[1:]) is InPlace
    assert placement(X[:, ::2], X[:, 1::2]) is OutOfPlace


def test_a_buffer_that_knows_nothing_is_dense_and_itself() -> None:
    opaque, other = (md.Float32Tensor.wrap(object()) for _ in range(2))
    assert contiguity(opaque) is Contiguous
    assert placement(opaque, type(opaque).wrap(opaque.buffer)) is InPlace
    assert placement(opaque, other) is OutOfPlace


@pytest.mark.parametrize("out", [X.T, X[::-1], X[:2], X[1:], X[:, :3]])
def test_memory_that_overlaps_is_refused(out: md.Tensor) -> None:
    for x, y in ((X, out), (out, X)):
        with pytest.raises(OptionError, match="out shares memory with x"):
            placement(x, y)


def test_the_overlap_error_has_shapes_and_a_way_out() -> None:
    with pytest.raises(OptionError) as caught:
        placement(X, X[:2])
    assert str(caught.value) == (
        "placement(Float32Tensor[4,6], Float32Tensor[2,6]): out shares memory with x "
        "but not element for element. Pass out=x, or a tensor with its own memory."
    )
    codes = md.from_numpy(np.zeros(4, np.int32))
    same = md.from_numpy(codes.buffer.view(np.float32))
    with pytest.raises(OptionError, match="shares memory"):
        placement(codes, same)
    assert ElementType[codes.dtype] is not ElementType[same.dtype]
