"""No tuple of types leaves a call undecided: the tables of all operations are sound."""

import itertools

import pytest

import mdtensor as md
from mdtensor import quant

TYPES = [*md.leaves(), bool, int, float, complex, type(None)]
BINARY = [f for f in md.operations().values() if len(f.operation.dispatched) == 2]
TERNARY = [md.conv2d, md.linear]


def undecided(function, count):
    """The tuples for which more than one method fits best."""
    for types in itertools.product(TYPES, repeat=count):
        try:
            function.select(*types)
        except md.DispatchError as error:
            if "more than one" in error.problem:
                yield types


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_every_pair_of_types_is_decided(function):
    assert list(undecided(function, 2)) == []


@pytest.mark.parametrize("function", TERNARY, ids=lambda f: f.__name__)
def test_every_triple_of_types_is_decided(function):
    assert list(undecided(function, 3)) == []


def test_quantized_types_are_among_them():
    assert {quant.QInt8Tensor, quant.QUInt8Tensor, quant.QInt32Tensor} < set(TYPES)
