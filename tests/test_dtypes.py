"""Element types: what they say about themselves, and how a stranger adds one."""

import copy
import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import dtypes, quant
from mdtensor.errors import OptionError, RegistrationError

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]


@pytest.fixture
def registry() -> Iterator[dict[str, Any]]:
    """The registry of element types, put back afterwards."""
    before = dict(dtypes._REGISTRY)
    yield dtypes._REGISTRY
    dtypes._REGISTRY.clear()
    dtypes._REGISTRY.update(before)


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_agrees_with_numpy(dtype: md.DType) -> None:
    assert dtype.storage == np.dtype(dtype.name)
    assert dtype.bits == 8 * dtype.storage.itemsize
    is_floating = np.issubdtype(dtype.storage, np.floating) or dtype is md.bfloat16
    assert dtype.is_floating == is_floating
    assert dtype.is_integer == np.issubdtype(dtype.storage, np.integer)
    assert dtype.is_complex == np.issubdtype(dtype.storage, np.complexfloating)


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_bounds(dtype: md.DType) -> None:
    if dtype is md.bfloat16:
        bounds = -(2 - 2.0**-7) * 2.0**127, (2 - 2.0**-7) * 2.0**127
    elif dtype.is_floating or dtype.is_complex:
        bounds = float(np.finfo(dtype.storage).min), float(np.finfo(dtype.storage).max)
    elif dtype.is_integer:
        info = np.iinfo(dtype.storage)
        bounds = int(info.min), int(info.max)
    else:
        bounds = 0, 1
    assert (dtype.minimum, dtype.maximum) == bounds
    is_exact = dtype.is_integer or dtype is md.bool
    assert type(dtype.maximum) is (int if is_exact else float)


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_found_under_all_its_names(dtype: md.DType) -> None:
    for name in (dtype, dtype.name, dtype.storage, dtype.storage.type):
        assert md.dtype(name) is dtype


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_one_of_each(dtype: md.DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert (repr(dtype), str(dtype)) == (f"mdtensor.{dtype.name}", dtype.name)


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_equals_itself_and_numpys_dtype(dtype: md.DType) -> None:
    strangers = (dtype.name, dtype.storage.type, *PLAIN)
    assert [other for other in strangers if other == dtype] == [dtype]
    numpys = {other.storage for other in PLAIN if other.storage == dtype}
    assert numpys == {other.storage for other in PLAIN if dtype == other.storage}
    assert numpys == {dtype.storage}
    assert {dtype: 1}[md.dtype(dtype.storage)] == 1


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_numpy_reads_element_types(dtype: md.DType) -> None:
    assert np.dtype(dtype) == np.zeros(2, dtype).dtype == dtype.storage
    assert np.arange(2).astype(dtype).dtype == dtype.storage
    kinds = {"signed integer": np.signedinteger, "unsigned integer": np.unsignedinteger}
    kinds |= {"bool": np.bool_, "complex floating": np.complexfloating}
    if dtype is not md.bfloat16:  # NumPy has no class of it below `floating`
        assert np.issubdtype(dtype, kinds.get(dtype.kind, np.floating))
    assert md.zeros(2, dtype=np.dtype(dtype)).dtype is dtype


def test_numpy_reads_element_types_before_its_protocol() -> None:
    # NumPy 2.2 and 2.3 do not know `__numpy_dtype__`, they read `dtype`.
    assert md.float32.dtype == md.float32.__numpy_dtype__ == np.float32


def test_numpy_has_no_dtype_for_codes() -> None:
    for dtype in (quant.qint8, quant.quint4, quant.qfloat8_e4m3):
        with pytest.raises(OptionError, match=f"the elements of {dtype}. Use {dtype}."):
            np.dtype(dtype)
        assert not hasattr(dtype, "dtype")
        assert dtype != dtype.storage


def test_unknown_names() -> None:
    for name in ("int7", object(), 3, np.dtype("clongdouble"), "float", "i1"):
        with pytest.raises(OptionError):
            md.dtype(name)
    with pytest.raises(OptionError) as caught:
        md.dtype("int7")
    assert str(caught.value).startswith("no element type int7. Known are bool, int8, ")
    with pytest.raises(OptionError) as caught:
        md.dtype("Flaot32")
    assert str(caught.value).startswith(
        "no element type Flaot32. Use float32. Known are bool, int8, "
    )


@pytest.mark.parametrize(
    ("array", "fix"),
    [
        (np.array(["2024-02-29"], "M8[D]"), "Use a.astype('int64'), the units since"),
        (np.array([3], "m8[s]"), "Use a.astype('int64'), the number of units."),
        (np.array(["a"]), "Its elements are texts: use a.astype(float) if"),
        (np.array([b"a"]), "Its elements are texts: use a.astype(float) if"),
        (np.array([None]), "Its elements are Python objects: use a.astype(float)"),
        (np.array([(1, 2)], "i4,i4"), "Take one of its fields, such as a['f0']."),
    ],
)
def test_arrays_of_other_types_are_told_a_way(array: Any, fix: str) -> None:
    for convert in (md.asarray, md.from_numpy, lambda a: md.asarray([1]) + a):
        with pytest.raises(OptionError, match=re.escape(fix)):
            convert(array)


@pytest.mark.parametrize("kind", [np.longdouble, np.clongdouble])
def test_long_doubles_are_told_to_round(kind: Any) -> None:
    array = np.ones(1, kind)
    if array.dtype in (np.float64, np.complex128):
        pytest.skip("this system has no long doubles")
    with pytest.raises(OptionError, match=r"Use a.astype\('\w*'\), which rounds\."):
        md.asarray(array)


def test_a_tensor_is_no_element_type_and_is_not_shown() -> None:
    with pytest.raises(OptionError) as caught:
        md.sum(md.zeros((2,)), dtype=md.ones((1,)))
    assert str(caught.value).startswith(
        "sum(Float32Tensor[2]): no element type like a Float32Tensor. Known are bool, "
    )


def test_a_name_is_taken_once() -> None:
    with pytest.raises(RegistrationError) as caught:
        md.DType("int8", "signed integer", 8, "int8")
    assert str(caught.value) == (
        "an element type named int8 exists already. Use dtype('int8'), or another name."
    )


def test_a_stranger_adds_one(registry: dict[str, Any]) -> None:
    posit = md.DType("posit8", "posit", 8, "uint8")
    assert registry["posit8"] is md.dtype("posit8") is posit
    assert not posit.is_floating and not posit.is_integer
    assert pickle.loads(pickle.dumps(posit)) is posit


def test_a_stranger_leaves_nothing_behind() -> None:
    with pytest.raises(OptionError):
        md.dtype("posit8")


@pytest.mark.parametrize("bits", [1, 4, 24, 31])
def test_tensors_of_integers_have_the_bits_of_their_storage(
    registry: dict[str, Any], bits: int
) -> None:
    short = md.DType("short", "signed integer", bits, "int32")
    with pytest.raises(RegistrationError) as caught:
        type(md.Int8Tensor)("Short", (md.SignedTensor,), {}, dtype=short)
    assert f"has {bits} bits, but its storage int32 has 32" in str(caught.value)


def test_a_format_is_that_of_the_name() -> None:
    assert f"{md.float32:>9}|{md.int8:<6}|{md.bool}" == "  float32|int8  |bool"
