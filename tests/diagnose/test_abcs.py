"""Abstract classes of Python's own: what is one of them need not derive from it."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set, Sized
from io import TextIOBase
from pathlib import Path

import plum
import pytest

from mdtensor.diagnose import analyze, coverage

ABCS = {
    Callable: print,
    Iterable: [],
    Mapping: {},
    Sequence: [],
    Set: {1},
    Sized: (),
    os.PathLike: Path(),
}


def functions():
    return plum.Dispatcher(), plum.Dispatcher()


@pytest.mark.parametrize(("kind", "value"), ABCS.items(), ids=lambda k: str(k))
def test_a_method_for_one_of_them_is_alive_and_ties(kind, value):
    dispatch, other = functions()

    @dispatch
    def put(x: kind, y: object): ...

    @other
    def take(x: kind, y: object): ...

    @other
    def take(x: object, y: kind): ...

    assert analyze(dispatch).findings == ()
    put(value, value)
    (finding,) = analyze(other).findings
    assert finding.rule == "MDT001"
    with pytest.raises(plum.AmbiguousLookupError):
        take(value, value)
    names = {**globals(), "dispatch": other}
    exec(finding.fix, names)
    take(value, value)
    assert analyze(other).findings == ()


def test_known_subclasses_do_not_make_it_dead():
    """Others are registered with it that nobody has named."""
    dispatch = plum.Dispatcher()

    @dispatch
    def put(x: Mapping): ...

    @dispatch
    def put(x: dict): ...

    assert analyze(dispatch).findings == ()
    found = coverage(put)
    counts = {share.method.types: share.count for share in found.shares}
    assert counts == {("Mapping",): 0, ("dict",): 1}


def test_of_an_abc_without_a_witness_nothing_is_said():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(x: TextIOBase): ...

    assert analyze(dispatch).findings == ()
    assert analyze(dispatch, [int]).findings == ()
