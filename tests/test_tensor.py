"""Tensors as objects: kinds and leaves, reading, copying, what is refused."""

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    OptionError,
    RegistrationError,
    ShapeError,
)
from mdtensor.interop import API_VERSIONS

LEAVES = md.leaves()[:15]
KINDS = [
    md.Tensor,
    md.LogicalTensor,
    md.NumericTensor,
    md.RealTensor,
    md.IntegerTensor,
    md.SignedTensor,
    md.UnsignedTensor,
    md.FloatingTensor,
    md.ComplexTensor,
]


def text(error: type[Exception], call: Callable[[], Any]) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_the_tree_of_types() -> None:
    kinds = {
        "Bool": md.LogicalTensor,
        "Int": md.SignedTensor,
        "UInt": md.UnsignedTensor,
        "Float": md.FloatingTensor,
        "BFloat": md.FloatingTensor,
        "Complex": md.ComplexTensor,
    }
    for leaf in LEAVES:
        name = leaf.__name__.removesuffix("Tensor").rstrip("0123456789")
        assert leaf.__bases__ == (kinds[name],)
        assert leaf.__name__.lower() == f"{leaf.dtype}tensor"
        assert md.leaf(leaf.dtype) is leaf
        assert leaf.with_dtype(leaf.dtype) is leaf.with_device(md.cpu) is leaf


@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_are_final(leaf: type[md.Tensor]) -> None:
    with pytest.raises(RegistrationError) as caught:
        type("Mine", (leaf,), {})
    assert str(caught.value) == (
        f"Mine derives from {leaf.__name__}, which is final. "
        "Derive from a kind, and add methods for the new type."
    )


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_are_abstract(kind: type[md.Tensor]) -> None:
    assert text(DispatchError, lambda: kind([1])) == (
        f"{kind.__name__} is an abstract class and cannot be created. Use a class with "
        "an element type, such as Float32Tensor, or asarray(values, dtype=...)."
    )


def test_one_leaf_for_a_type_on_a_device() -> None:
    assert (
        text(RegistrationError, lambda: type("Mine", (md.Tensor,), {}, dtype=md.int8))
        == "int8 on cpu already has a tensor type."
    )


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_holds_a_buffer_and_nothing_else(leaf: type[md.Tensor]) -> None:
    x = leaf([[1, 0, 1]] if leaf.dtype.name != "bool" else [[True, False, True]])
    assert (x.shape, x.ndim, x.size, len(x)) == ((1, 3), 2, 3, 1)
    assert x.nbytes == 3 * leaf.dtype.bits // 8
    assert x.buffer.dtype == leaf.dtype.storage
    assert repr(x).startswith(f"{leaf.__name__}[1,3](")
    assert not hasattr(x, "__dict__")
    with pytest.raises(AttributeError):
        x.name = "x"  # type: ignore[attr-defined]


def test_iterating_and_indexing() -> None:
    x = md.asarray([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert x.T.tolist() == [[1, 3], [2, 4]]
    assert np.shares_memory(x.T.buffer, x.buffer)
    assert text(ShapeError, lambda: x[0].T) == (
        "T(Int64Tensor[2]): the transpose is for 2 dimensions. Use permute_dims."
    )
    assert text(DispatchError, lambda: len(md.asarray(1))) == (
        "a 0-d tensor does not have a length. Use x.size, or reshape(x, (1,))."
    )


def test_matrices_of_a_stack_are_transposed() -> None:
    x = md.asarray([[[1, 2, 3], [4, 5, 6]]])
    assert x.mT.tolist() == [[[1, 4], [2, 5], [3, 6]]]
    assert np.shares_memory(x.mT.buffer, x.buffer)
    assert text(ShapeError, lambda: x[0, 0].mT) == (
        "mT(Int64Tensor[3]): a matrix must have at least 2 axes, but has 1. "
        "Give the shape [..., m, n]."
    )


@each("kind", [*md.leaves()[:15], quant.QInt8Tensor])
@each("ndim", range(4))
def test_hasattr_answers_for_every_attribute(kind: type[md.Tensor], ndim: int) -> None:
    x: Any = md.ones((1,) * ndim)
    if kind is quant.QInt8Tensor:
        x = quant.quantize(x, quant.QParams(0.5))
    else:
        x = md.astype(x, kind.dtype)
    for name in dir(type(x)):
        exists = {"T": ndim == 2, "mT": ndim >= 2}.get(name, True)
        # CuPy and others take an array with this attribute for one on a GPU.
        exists = exists and name != "__cuda_array_interface__"
        assert hasattr(x, name) is exists


def test_a_missing_transpose_is_a_missing_attribute() -> None:
    x = md.asarray([1.0])
    assert (hasattr(x, "T"), getattr(x, "mT", None)) == (False, None)
    with pytest.raises(md.TransposeError, match=r"^T\(Float32Tensor\[1\]\): the tran"):
        getattr(x, "T")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^mT\(Float32Tensor\[1\]\): a matrix"):
        getattr(x, "mT")  # noqa: B009


def test_not_hashable() -> None:
    with pytest.raises(TypeError):
        hash(md.asarray(1))


def test_from_numpy_shares() -> None:
    array = np.zeros((2, 2), np.int16)
    assert md.from_numpy(array).buffer is array
    assert md.from_numpy(np.uint8(7)).tolist() == 7
    with pytest.raises(md.OptionError):
        md.from_numpy(np.zeros(1, np.clongdouble))
    with pytest.raises(md.OptionError):
        md.from_numpy(np.array(["a"]))


def test_broadcast_arrays_are_read_only() -> None:
    """NumPy warns where their flags are read, and will make them read-only."""
    a, b = np.broadcast_arrays(np.ones((2, 1), np.float32), np.float32([1, 2]))
    x, y = md.from_numpy(a), md.asarray(b)
    assert md.exp(x).shape == md.atan2(x, y).shape == (2, 2)
    with pytest.raises(md.MdtensorError):
        x[0, 0] = 2.0
    assert np.ones(2).flags.num >= 0


def test_leaves_are_found_by_name_too() -> None:
    assert md.leaf("int8", "cpu") is md.leaf(np.int8) is md.Int8Tensor
    assert text(DeviceError, lambda: md.leaf(md.quant.qfloat8_e4m3, "cuda")).startswith(
        "qfloat8_e4m3 has no tensor type on cuda:0. Use "
    )
    with pytest.raises(OptionError, match="no element type like a object"):
        md.leaf(object())


def test_a_tensor_takes_its_values_alone() -> None:
    call: Any = md.Float32Tensor
    assert call(values=[1.0]).tolist() == [1.0]
    for make, what in (
        (lambda: call([1.0], dtype=md.int8), "dtype="),
        (lambda: call([1.0], "cpu", copy=True), "'cpu', copy="),
    ):
        assert text(DispatchError, make) == (
            f"Float32Tensor: takes the values alone, not {what}. "
            "Use asarray(values, dtype=..., device=...) for other types and devices."
        )


def test_a_library_that_makes_a_tensor_with_a_unit() -> None:
    class Metre:
        dimensions = "length"

        def __repr__(self) -> str:
            return "m"

    call: Any = md.Float32Tensor
    for unit in ({"unit": Metre()}, {}):
        more = () if unit else (Metre(),)
        with pytest.raises(md.CastError, match="has the unit m, which a tensor does"):
            call([1.0], *more, bypass_validation=True, **unit)


def test_wrap_trusts_and_shares() -> None:
    buffer = np.zeros(3, np.float32)
    assert md.Float32Tensor.wrap(buffer).buffer is buffer


def test_repr_and_str_show_type_shape_and_elements() -> None:
    x = md.asarray([1.0, 2.5])
    assert str(x) == repr(x) == "Float32Tensor[2]([1. , 2.5])"
    assert repr(md.asarray([[1, 2], [3, 4]])) == (
        "Int64Tensor[2,2]([[1, 2],\n                  [3, 4]])"
    )
    assert repr(md.asarray(2.5)) == "Float32Tensor[](2.5)"
    assert repr(md.zeros((0, 3))) == "Float32Tensor[0,3]([])"


def test_a_large_repr_is_summarized_by_numpys_print_options() -> None:
    x = md.zeros((2000, 1000))
    assert len(repr(x)) < 1000
    assert "..." in repr(x)
    with np.printoptions(threshold=3, edgeitems=1):
        assert repr(md.asarray([1, 2, 3, 4])) == "Int64Tensor[4]([1, ..., 4])"


def test_a_quantized_repr_shows_numbers_codes_and_grid() -> None:
    q = md.quant.QInt8Tensor([1, 2], scale=0.5, zero_point=1)
    grid = "scale=0.5, zero_point=1"
    assert str(q) == repr(q) == f"QInt8Tensor[2]([0. , 0.5], codes=[1, 2], {grid})"
    q = md.quant.QInt8Tensor([[1], [2]], scale=0.5)
    assert repr(q) == (
        "QInt8Tensor[2,1](\n    [[0.5],\n     [1. ]],\n    codes=[[1],\n"
        "           [2]],\n    scale=0.5, zero_point=0)"
    )
    with np.printoptions(threshold=3, edgeitems=1):
        q = md.quant.QInt4Tensor([1, 2, 3, 4], scale=[1, 2], axis=0, block_size=2)
        assert repr(q) == (
            "QInt4Tensor[4](\n    [1., ..., 8.],\n    codes=[1, ..., 4],\n"
            "    2 scales=1.0..2.0, axis=0, block_size=2)"
        )


def test_a_repr_copies_nothing_from_a_device() -> None:
    cls = md.leaf(md.float32, "cuda:0")
    x = cls.wrap(np.zeros(2, np.float32))
    assert repr(x) == str(x) == "CudaFloat32Tensor[2](device='cuda:0')"


def test_a_format_of_one_element_is_that_of_its_number() -> None:
    assert f"{md.asarray(3.5):.2f}" == "3.50"
    assert f"{md.asarray(3.5)}" == "3.5"
    assert f"{md.asarray([3.5])}" == "Float32Tensor[1]([3.5])"
    with pytest.raises(md.GridError):
        f"{md.quant.QInt8Tensor(1, scale=0.5):.2f}"


def test_a_leaf_needs_an_element_type() -> None:
    def declare() -> None:
        class Wrong(md.NumericTensor, dtype="int8"):  # type: ignore[arg-type]
            pass

    assert text(md.RegistrationError, declare) == (
        "the dtype of Wrong is a str. Give a DType."
    )


def test_a_tensor_type_names_its_element_type() -> None:
    assert md.dtype(md.Int8Tensor) is md.int8
    assert type(md.astype(md.asarray([1.0]), md.Int8Tensor)) is md.Int8Tensor


def test_moved_under_the_name_of_the_standard() -> None:
    x = md.asarray([1.0])
    assert x.to_device(md.cpu) is x.to_device("cpu") is x
    assert text(md.OptionError, lambda: x.to_device("cpu", stream=1)) == (
        "to_device(Float32Tensor[1], str): stream is 1, not a Stream. "
        "Use None, or a stream of the device."
    )
    assert x.to_device("cpu", stream=md.cpu.stream()) is x


def test_the_namespace_of_a_version() -> None:
    x = md.asarray([1.0])
    for version in (None, *API_VERSIONS):
        assert x.__array_namespace__(api_version=version) is md
    assert text(md.OptionError, lambda: x.__array_namespace__(api_version="1999")) == (
        "__array_namespace__: api_version is '1999'. "
        "Use 2021.12, 2022.12, 2023.12, 2024.12, 2025.12."
    )


@pytest.mark.parametrize("leaf", LEAVES)
def test_help_says_what_each_attribute_is(leaf: type[md.Tensor]) -> None:
    assert leaf.__doc__ and leaf.__doc__ != md.Tensor.__doc__
    shown = [name for name in dir(leaf) if not name.startswith("_")]
    assert {"buffer", "device", "dtype", "item", "shape", "to_device"} <= set(shown)
    methods = set(shown) - {"dtype", "device"}
    assert all(inspect.getdoc(getattr(leaf, name)) for name in methods - {"buffer"})
    assert "\n |  buffer\n |      The elements" in pydoc.render_doc(
        leaf, renderer=pydoc.plaintext
    )


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 1, 3)])
def test_item_takes_the_indices_of_numpy(shape: tuple[int, ...]) -> None:
    """Exhaustive over one index, one for each axis, and tuples of them."""
    there = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    x = md.asarray(there)
    for at in range(-there.size, there.size):
        assert x.item(at) == x.item((at,)) == x.item(np.int64(at)) == there.item(at)
    for place in np.ndindex(shape):
        if len(place) > 1:
            assert x.item(*place) == x.item(place) == there.item(*place)
    for wrong in (there.size, -there.size - 1, "a", 1.0, True, None, [0], slice(1)):
        with pytest.raises(md.errors.BoundsError, match=r"^item\("):
            x.item(wrong)
    with pytest.raises(md.errors.BoundsError):
        x.item(*[0] * (len(shape) + 2))


def test_item_of_codes_is_no_number() -> None:
    q = md.quant.quantize(md.asarray([[1.0, 2.0]]), qparams=md.quant.QParams(0.5))
    for index in ((), (1,), (0, 1)):
        with pytest.raises(md.errors.GridError, match="holds codes, not floats"):
            q.item(*index)


def test_transpose_takes_axes_by_name() -> None:
    x = md.zeros((2, 3, 4))
    for axes in ((2, 0, 1), [2, 0, 1], (-1, 0, 1)):
        assert x.transpose(axes=axes).shape == x.transpose(axes).shape == (4, 2, 3)
    assert x.transpose(axes=None).shape == x.transpose().shape == (4, 3, 2)
    assert md.asarray(1.0).transpose(axes=()).shape == ()
    with pytest.raises(md.DispatchError, match="axes is given twice"):
        x.transpose(2, 0, 1, axes=(2, 0, 1))
    with pytest.raises(ShapeError):
        x.transpose(axes=(1, 0))


def test_transpose_of_two_axes_says_how_to_swap_them() -> None:
    x, stack = md.zeros((2, 3)), md.zeros((2, 3, 4))
    for axes in ((0, 1), (-2, -1)):
        with pytest.raises(ShapeError, match=r"swapped in PyTorch\. Use x\.T"):
            x.transpose(*axes)
        assert x.transpose(axes).shape == x.transpose(axes=axes).shape == (2, 3)
    assert x.transpose(1, 0).shape == x.transpose(-1, -2).shape == (3, 2)
    with pytest.raises(ShapeError, match=r"all 3; x\.transpose\(2, 1, 0\) swaps"):
        stack.transpose(0, -1)
    with pytest.raises(ShapeError, match=r"Give all 3\.$"):
        stack.transpose(0, 3)
