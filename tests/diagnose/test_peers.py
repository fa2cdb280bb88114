"""The fixtures of Julia's own test of ambiguities, and of Aqua.jl: the same pairs.

Source: julia, test/ambiguous.jl; Aqua.jl, test/pkgs/PkgWithAmbiguities.jl.
"""

from typing import Any, Union

import plum
import pytest
from diagnose.lattices import method

from mdtensor.diagnose import analyze
from mdtensor.diagnose.fixes import pairs
from mdtensor.diagnose.report import study_of


class Number: ...


class Complex(Number): ...


class Real(Number): ...


class Integer(Real): ...


class Signed(Integer): ...


class Int8(Signed): ...


class Int16(Signed): ...


class Int(Signed): ...


class UInt8(Integer): ...


class Float64(Real): ...


class String: ...


class AbstractIrrational(Real): ...


class Irrational(AbstractIrrational): ...


class Pi(Irrational): ...


class Euler(Irrational): ...


class Irrational2(AbstractIrrational): ...


class SingletonType: ...


UNIVERSE = [Complex, Int8, Int16, Int, UInt8, Float64, String]
UNIVERSE += [Pi, Euler, Irrational2, SingletonType]
CASES = {
    "ambig": (
        [(Any, Any), (Integer, Any), (Any, Integer), (Int, Int), (Number, Any)],
        {(2, 3), (3, 5)},
    ),
    "Ambig1": ([(Any, Any), (Integer, Any), (Any, Integer)], {(2, 3)}),
    "Ambig2": (
        [(Any, Any), (Integer, Any), (Any, Integer), (Number, Any)],
        {(2, 3), (3, 4)},
    ),
    "Ambig3": ([(Any, Any), (Integer, Any), (Any, Integer), (Int, Int)], {(2, 3)}),
    "Ambig4": ([(Any, Any), (Int, Any), (Any, Int), (Int, Int)], set()),
    "Ambig5": ([(Int8, Any), (Integer, Any), (Any, Int)], {(1, 3), (2, 3)}),
    "Ambig7": ([(Int8, Any), (Any, Int8)], {(1, 2)}),
    "Ambig48312": (
        [(Integer, Int), (Int, Integer), (Signed, Int), (Int, Signed)],
        {(1, 2), (1, 4), (2, 3), (3, 4)},
    ),
    "amb_3": (
        [
            (Int8, Int8),
            (Int16, Int16),
            (Signed, Signed),
            (Signed, Any),
            (Any, Signed),
        ],
        set(),
    ),
    "amb_4": ([(Int8, Int8), (Int16, Int16), (Signed, Any), (Any, Signed)], {(3, 4)}),
    "fnoambig": ([(Int, Int), (Int, Any), (Any, Int), (Any, Any)], set()),
    "Aqua f": ([(Any, Int), (Int, Any)], {(1, 2)}),
    "Aqua constructor of three": (
        [(Any, Any, Int), (Any, Int, Int), (Int, Any, Any)],
        {(1, 3), (2, 3)},
    ),
    "Aqua call": (
        [(SingletonType, Any, Float64), (SingletonType, Float64, Any)],
        {(1, 2)},
    ),
    "Aqua three ways": (
        [(Any, Any, Int), (Any, Int, Any), (Int, Any, Any)],
        {(1, 2), (1, 3), (2, 3)},
    ),
}


def function(rows):
    """A function of plum with a method for each row, and the methods in order."""
    registered = plum.Dispatcher().abstract(method(plum.Signature()))
    implementations = []
    for row in rows:
        signature = plum.Signature(*row)
        implementations.append(method(signature))
        registered.register(implementations[-1], signature=signature)
    return registered, implementations


@pytest.mark.parametrize("name", CASES)
def test_the_pairs_are_those_of_the_peer(name):
    rows, expected = CASES[name]
    registered, implementations = function(rows)
    study = study_of(registered, UNIVERSE)
    numbers = {
        implementation: at + 1 for at, implementation in enumerate(implementations)
    }
    found = set()
    for _, table in study.each_table():
        for pair in pairs(table):
            found.add(tuple(sorted(numbers[m.implementation] for m in pair)))
    assert found == expected
    report = analyze(registered, UNIVERSE)
    assert bool(report.of("MDT001")) == bool(expected)


def test_julia_proposes_the_same_method():
    """`ambig(0x03, 4)`: Possible fix, define ambig(::Integer, ::Integer)."""
    registered, _ = function(CASES["ambig"][0])
    fixes = {finding.fix for finding in analyze(registered, UNIVERSE).findings}
    bring = f"from {__name__} import Integer"
    assert f"{bring}\n@dispatch\ndef call(x0: Integer, x1: Integer): ..." in fixes


def test_unions_that_cannot_be_sorted():
    """Ambig8: `f(0)` and `f(pi)` fail, four other calls run."""
    rows = [
        (Union[Pi, Integer],),
        (Union[AbstractIrrational, Int],),
        (Irrational,),
        (Signed,),
    ]
    registered, implementations = function(rows)
    (table,) = study_of(registered, UNIVERSE).tables.popitem()[1].values()
    runs = {UInt8: 1, Irrational2: 2, Euler: 3, Int8: 4}
    for cls in (UInt8, Irrational2, Euler, Int8, Int, Pi):
        answer = table.answer(table.mask([cls]))
        if cls not in runs:
            assert answer.winner < 0
        else:
            ran = table.methods[answer.winner].implementation
            assert implementations.index(ran) + 1 == runs[cls]
