"""What plum keeps to itself is where we look for it, and is read without harm."""

import typing

import plum

import mdtensor as md
from mdtensor.diagnose import analyze
from mdtensor.diagnose.hints import hint
from mdtensor.diagnose.source import MISSING, source, sources


def test_plum_still_keeps_what_we_read():
    function = plum.Dispatcher().abstract(lambda: None)
    for name in ("_pending", "_resolved", "_resolver", "_owner_name"):
        assert hasattr(function, name), name
    assert hasattr(function._resolver, "methods")
    assert plum.Signature(int).varargs is MISSING
    assert callable(plum._signature.append_default_args)


def make():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: int, b: int = 1): ...

    @dispatch(precedence=2)
    def put(*a: typing.Union[int, str]): ...

    return dispatch, put


def test_methods_are_read_as_plum_reads_them():
    dispatch, put = make()
    assert len(put._pending) == 2
    before = source(put)
    assert len(put._pending) == 2  # reading resolves nothing
    expected = {
        (tuple(m.signature.types), m.signature.varargs, m.signature.precedence)
        for m in put.methods
    }
    for found in (before, source(put)):
        read = {(m.types, m.varargs, m.precedence) for m in found.methods}
        assert read == expected
    assert [m.text for m in before.methods] == [
        "put(a: int, b: int)",
        "put(a: int)",
        "put(*a: int | str)",
    ]
    assert sources(dispatch)[0].name == before.name


def test_methods_of_classes_belong_to_a_dispatcher():
    dispatch = plum.Dispatcher()

    class Shape:
        @dispatch
        def scale(self, by: int): ...

        @dispatch
        def scale(self, by: float): ...

    (found,) = sources(dispatch)
    assert found.owner.endswith("Shape")
    assert analyze(dispatch).findings == ()


def test_one_bad_annotation_leaves_the_other_functions_checked():
    dispatch = plum.Dispatcher()

    @dispatch
    def bad(a: "Nowhere"): ...  # noqa: F821

    @dispatch
    def good(a: bool, b: int): ...

    @dispatch
    def good(a: int, b: bool): ...

    assert [f.rule for f in analyze(dispatch).findings] == ["MDT001", "MDT009"]


@typing.runtime_checkable
class Sized(typing.Protocol):
    size: int


def test_a_protocol_is_slow_and_not_unreadable():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: Sized): ...

    @dispatch
    def put(a: int): ...

    assert [f.rule for f in analyze(dispatch).findings] == ["MDT006"]


def test_any_in_a_union_is_object():
    assert hint(typing.Union[typing.Any, int]).members == (object,)
    assert hint(typing.Any).top


def test_replaced_methods_are_not_forgotten():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: int):
        return "first"

    @dispatch(precedence=5)
    def put(a: str):
        return "high"

    @dispatch
    def put(a: str):
        return "last"

    @dispatch
    def put(a: int):
        return "second"

    assert put(1) == "second" and put("") == "last"  # plum, whatever the precedence
    found = analyze(dispatch).of("MDT003")
    assert [f.methods[0].signature for f in found] == ["put(a: int)", "put(a: str)"]
    notes = [note for f in found for note in f.notes]
    assert notes == ["precedence 5 loses to 0: the last of equal types runs"]


def test_a_module_of_ours_is_looked_at() -> None:
    """What it exports besides operations, errors among it, is left alone."""
    named = {found.short for found in sources(md.linalg)}
    assert {"solve", "inv"} <= named and "LinAlgError" not in named
