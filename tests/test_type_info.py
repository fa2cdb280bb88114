"""Questions about element types: limits and kinds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import OptionError

PLAIN = [leaf.dtype for leaf in md.leaves()[:15]]
FLOATS = [dtype for dtype in PLAIN if dtype.is_floating or dtype.is_complex]
INTEGERS = [dtype for dtype in PLAIN if dtype.is_integer]
SIGNED = (md.int8, md.int16, md.int32, md.int64)
UNSIGNED = (md.uint8, md.uint16, md.uint32, md.uint64)
REAL = (md.float16, md.bfloat16, md.float32, md.float64)
COMPLEX = (md.complex64, md.complex128)
OF_KIND = {
    "bool": (md.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *REAL, *COMPLEX),
    "quantized": (quant.qint8, quant.quint8, quant.qint32),
}


def text(call: Callable[[], Any]) -> str:
    with pytest.raises(OptionError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_finfo(dtype: md.DType) -> None:
    found = md.finfo(dtype)
    one = found.dtype.storage.type(1)
    assert found.dtype.is_floating
    assert found.bits == (dtype.bits // 2 if dtype.is_complex else dtype.bits)
    assert one + found.dtype.storage.type(found.eps) > one
    assert one + found.dtype.storage.type(found.eps / 2) == one
    assert (found.min, found.max) == (dtype.minimum, dtype.maximum)
    numbers = (found.eps, found.max, found.min, found.smallest_normal)
    assert {type(number) for number in numbers} == {float}
    assert md.finfo(dtype.name) == md.finfo(md.ones((2,), dtype=dtype)) == found


def test_finfo_is_numpys() -> None:
    for dtype in (md.float16, md.float32, md.float64):
        ours, theirs = md.finfo(dtype), np.finfo(dtype.storage)
        assert (ours.eps, ours.smallest_normal) == (theirs.eps, theirs.smallest_normal)
    assert md.finfo(md.bfloat16) == md.FloatInfo(
        bits=16,
        eps=2.0**-7,
        max=(2 - 2.0**-7) * 2.0**127,
        min=-(2 - 2.0**-7) * 2.0**127,
        smallest_normal=2.0**-126,
        dtype=md.bfloat16,
    )


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_iinfo(dtype: md.DType) -> None:
    found, theirs = md.iinfo(dtype), np.iinfo(dtype.storage)
    assert found == md.IntegerInfo(theirs.bits, theirs.max, theirs.min, dtype)
    assert type(found.max) is type(found.min) is int
    assert md.iinfo(md.ones((2,), dtype=dtype)) == found


def test_of_another_kind() -> None:
    assert text(lambda: md.finfo(md.int8)) == (
        "finfo: int8 is not a floating type. Use iinfo."
    )
    assert text(lambda: md.iinfo("complex64")) == (
        "iinfo: complex64 is not an integer type. Use finfo."
    )
    assert text(lambda: md.iinfo(md.bool)) == "iinfo: bool is not an integer type."
    assert text(lambda: md.finfo(md.bool)) == "finfo: bool is not a floating type."
    assert text(lambda: md.finfo("int7")).startswith("no element type int7.")


@pytest.mark.parametrize("kind", OF_KIND)
def test_isdtype(kind: str) -> None:
    everything = {*PLAIN, *OF_KIND["quantized"]}
    assert {t for t in everything if md.isdtype(t, kind)} == set(OF_KIND[kind])


def test_isdtype_of_several_and_of_one() -> None:
    assert md.isdtype("int8", ("bool", "integral"))
    assert not md.isdtype(md.float32, ("bool", md.float64))
    assert md.isdtype(md.float32, (md.float64, md.float32))
    assert not md.isdtype(md.float32, ())
    assert md.isdtype(np.int8, md.int8)


def test_no_such_kind() -> None:
    for kind in ("integer", 3, None):
        assert text(lambda kind=kind: md.isdtype(md.int8, kind)).startswith(
            f"isdtype: no kind {kind!r}. Known are bool, signed integer, "
        )
