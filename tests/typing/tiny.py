"""Somebody else's element type and operation."""

from typing import Any

import ml_dtypes

import mdtensor as md
from mdtensor.promotion import add_type

tiny = md.DType("tiny", "real floating", 8, ml_dtypes.float8_e5m2)
add_type(tiny, above=[md.int64, md.uint64], below=[md.float16])


class TinyTensor(md.FloatingTensor, dtype=tiny):
    """The upper byte of a binary16."""

    __slots__ = ()


@md.generic(deduce=lambda x: x)
def twice(x: Any, /) -> Any:
    """x + x."""


@md.method(twice)
def twice(x: md.IntegerTensor, /) -> md.IntegerTensor:
    return x + x
