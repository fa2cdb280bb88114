"""What runs, why, and what there is: for our operations and for plum's functions."""

import itertools
from typing import Any

import plum
import pytest

import mdtensor as md
from mdtensor import diagnose
from mdtensor.errors import DispatchError, OptionError


class Tensor: ...


class Float(Tensor): ...


class Float32(Float): ...


class Quant(Tensor): ...


def make():
    """`add` with four methods, of which two tie."""
    dispatch = plum.Dispatcher()

    @dispatch
    def add(a: Tensor, b: Tensor):
        return "any"

    @dispatch
    def add(a: Float, b: Float):
        return "float"

    @dispatch
    def add(a: Quant, b: Tensor):
        return "left"

    @dispatch
    def add(a: Tensor, b: Quant):
        return "right"

    return add


UNIVERSE = [Float32, Quant]


def test_which_is_what_runs():
    add = make()
    for types in itertools.product([Tensor, Float, Float32, Quant], repeat=2):
        values = [cls() for cls in types]
        try:
            ran = add(*values)
        except plum.AmbiguousLookupError:
            assert types == (Quant, Quant)
            with pytest.raises(DispatchError, match="more than one method fits"):
                diagnose.which(add, *types)
            continue
        said = diagnose.which(add, *values)
        source = {"any": 28, "float": 32, "left": 36, "right": 40}
        assert said.line - source[ran] == diagnose.which(add, Tensor, Tensor).line - 28


def test_which_says_that_nothing_fits():
    with pytest.raises(DispatchError, match=r"add\(Tensor, int\): no method"):
        diagnose.which(make(), Tensor, 3)


def test_a_function_is_asked_for():
    with pytest.raises(OptionError, match="expected an operation or a plum"):
        diagnose.explain(len, 3)
    for wrong in ([make(), 3], "add", 3):
        with pytest.raises(OptionError, match="expected an operation or a plum"):
            diagnose.analyze(wrong)


def test_classes_are_asked_for():
    for ask in (
        lambda: diagnose.analyze(make(), [Float32, 3]),
        lambda: diagnose.methods_with("Float32", make()),
    ):
        with pytest.raises(OptionError, match="expected a class, not an"):
            ask()
    with pytest.raises(OptionError, match=r"a Union of classes, not list\[int\]"):
        diagnose.contract(make(), list[int], Tensor)


def test_explain_gives_every_method_its_place():
    said = diagnose.explain(make(), Float32, Float32)
    assert said.reason == "most specific, of 2 methods that fit"
    assert [(row.rank, row.method.signature) for row in said.rows] == [
        (1, "add(a: Float, b: Float)"),
        (2, "add(a: Tensor, b: Tensor)"),
        (0, "add(a: Quant, b: Tensor)"),
        (0, "add(a: Tensor, b: Quant)"),
    ]
    assert [row.reason for row in said.rows] == [
        "chosen",
        "a: Tensor is wider than Float; b: Tensor is wider than Float",
        "a: Float32 is not Quant",
        "b: Float32 is not Quant",
    ]
    lines = str(said).splitlines()
    assert lines[0] == "add(Float32, Float32)"
    assert lines[1] == f"  => {said.winner}"
    assert lines[2] == "  why: most specific, of 2 methods that fit, of 4 in all"
    assert lines[3].startswith("   1  add(a: Float, b: Float)  ")
    assert max(map(len, lines)) <= 100


def test_explain_says_exact_ambiguous_and_missing():
    add = make()
    assert diagnose.explain(add, Float, Float).reason == "exact, of 2 methods that fit"
    tied = diagnose.explain(add, Quant, Quant)
    assert tied.winner is None
    assert [m.signature for m in tied.tied] == [
        "add(a: Quant, b: Tensor)",
        "add(a: Tensor, b: Quant)",
    ]
    assert [row.rank for row in tied.rows] == [1, 1, 3, 0]
    assert tied.reason == "2 methods fit equally well"
    assert diagnose.explain(add, 1, 2).reason == "no method fits"
    short = diagnose.explain(add, Float)
    assert {row.reason for row in short.rows} == {"takes 2 arguments"}


def test_explain_says_that_a_precedence_decides():
    dispatch = plum.Dispatcher()

    @dispatch(precedence=2)
    def put(a: Quant, b: Tensor): ...

    @dispatch
    def put(a: Tensor, b: Quant): ...

    said = diagnose.explain(put, Quant, Quant)
    assert said.reason == "precedence 2, of 2 that tie"
    assert said.rows[1].reason == "precedence 0 is lower than 2"


def test_explain_is_select_for_our_operations():
    types = [md.Int8Tensor, md.Float32Tensor, md.CudaFloat32Tensor, int, float]
    for function in (md.add, md.matmul, md.where, md.concat, md.sin):
        count = len(function.operation.dispatched)
        for drawn in itertools.product(types, repeat=count):
            said = diagnose.explain(function, *drawn).winner
            try:
                ran = function.select(*drawn).method
            except DispatchError:
                assert said is None
            else:
                assert said.location == ran.location


def test_a_call_has_as_many_arguments_as_are_declared():
    with md.registry.restored():

        @md.generic
        def pair(x: Any, y: Any, /) -> Any: ...

        @md.method(pair)
        def pair(x: md.Float32Tensor, /, *rest: Any) -> Any: ...

        f32 = md.Float32Tensor
        assert diagnose.which(pair, f32, f32).function == "pair"
        for given in ([f32], [f32] * 3):
            said = diagnose.explain(pair, *given)
            assert (said.winner, said.reason) == (
                None,
                "the operation takes 2 arguments",
            )
            assert said.rows[0].reason == said.reason
            assert diagnose.suggest(pair, *given).header == ""
            with pytest.raises(DispatchError, match="the operation takes 2 arguments"):
                diagnose.which(pair, *given)


def test_defaults_of_a_declaration_are_filled_in():
    assert diagnose.which(md.linear, md.Float32Tensor, md.Float32Tensor).function == (
        "linear"
    )


def test_methods_are_listed_most_specific_first():
    assert [m.signature for m in diagnose.methods(make())] == [
        "add(a: Float, b: Float)",
        "add(a: Quant, b: Tensor)",
        "add(a: Tensor, b: Quant)",
        "add(a: Tensor, b: Tensor)",
    ]


def test_methods_with_a_type():
    add = make()
    found = diagnose.methods_with(Float32, add)
    assert [m.signature for m in found] == [
        "add(a: Float, b: Float)",
        "add(a: Quant, b: Tensor)",
        "add(a: Tensor, b: Quant)",
        "add(a: Tensor, b: Tensor)",
    ]
    assert diagnose.methods_with(Float32, add, supertypes=False) == ()
    assert len(diagnose.methods_with(Quant, add, supertypes=False)) == 2


def test_coverage_counts_each_tuple_once():
    found = diagnose.coverage(make(), UNIVERSE)
    assert {s.method.signature: s.count for s in found.shares} == {
        "add(a: Float, b: Float)": 1,
        "add(a: Quant, b: Tensor)": 1,
        "add(a: Tensor, b: Quant)": 1,
        "add(a: Tensor, b: Tensor)": 0,
    }
    assert (found.ambiguous, found.missing, found.total) == (1, 0, 4)
    assert "ambiguous" in str(found)


def test_a_contract_names_its_holes():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: Float, b: Tensor): ...

    promise = diagnose.contract(put, Tensor, Tensor)
    try:
        (finding,) = diagnose.analyze(put, UNIVERSE).of("MDT012")
        assert (finding.count, finding.total) == (2, 4)
        assert finding.message == (
            "put(Quant, Float32) is uncovered, and put(Tensor, Tensor) is promised"
        )
        assert finding.fix == "def put(a: Quant, b: Float32): ..."
    finally:
        promise.withdraw()
    assert diagnose.analyze(put, UNIVERSE).of("MDT012") == ()


class Unseen: ...


def test_a_contract_brings_its_classes():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: Float): ...

    promise = diagnose.contract(put, Unseen)
    try:
        (finding,) = diagnose.analyze(put).of("MDT012")
        assert finding.witness == ("Unseen",)
    finally:
        promise.withdraw()


def test_collected_arguments_are_numbered():
    dispatch = plum.Dispatcher()

    def put(*parts, exact=False): ...

    function = dispatch.multi((Float, Quant), (Tensor,))(put)
    assert [m.signature for m in diagnose.methods(function)] == [
        "put(parts0: Float, parts1: Quant)",
        "put(parts0: Tensor)",
    ]
    header = diagnose.suggest(function, Quant, Quant).header
    assert header == "def put(parts0: Quant, parts1: Quant, *, exact=False): ..."


def test_a_witness_can_be_made_here_if_any_can():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: md.Tensor, b: md.FloatingTensor): ...

    @dispatch
    def put(a: md.FloatingTensor, b: md.Tensor): ...

    universe = [md.CudaFloat32Tensor, md.Float32Tensor, md.CudaInt8Tensor]
    (finding,) = diagnose.analyze(put, universe).findings
    assert finding.witness == ("Float32Tensor", "Float32Tensor")
    assert (finding.reach, finding.count, finding.total) == ("host", 4, 9)
    (finding,) = diagnose.analyze(put, universe[:1]).of("MDT001")
    assert finding.witness == ("CudaFloat32Tensor", "CudaFloat32Tensor")
    assert finding.reach == "backend:cuda"


def test_levels_are_known():
    report = diagnose.analyze(make(), UNIVERSE)
    assert [f.rule for f in report.at_least("error")] == ["MDT001"]
    assert {f.rule for f in report.at_least("warning")} == {"MDT001", "MDT004"}
    assert report.summary == {"MDT001": 1, "MDT004": 1}
    with pytest.raises(OptionError, match="Use error, warning, info"):
        report.at_least("fatal")


def test_the_dead_say_why():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(a: Float32, b: Tensor): ...

    @dispatch
    def put(a: Float, b: Float32): ...

    @dispatch
    def put(a: Float, b: Float): ...

    @dispatch
    def put(a: Unseen, b: Unseen): ...

    found = diagnose.analyze(put, [Float32]).of("MDT004")
    assert [(f.methods[0].signature, f.count, f.notes) for f in found] == [
        ("put(a: Float, b: Float)", 1, ("it fits 1 call, and none runs",)),
        ("put(a: Float, b: Float32)", 1, ("it fits 1 call, and none runs",)),
        ("put(a: Float32, b: Tensor)", 1, ("it fits 1 call, and none runs",)),
        (
            "put(a: Unseen, b: Unseen)",
            0,
            ("no class in the universe fits its signature",),
        ),
    ]
    (shadowed,) = diagnose.analyze(make(), [Float32]).of("MDT004")[-1:]
    assert shadowed.message == "dead method, shadowed: add(a: Tensor, b: Tensor)"
    assert shadowed.notes == (
        "it fits 1 call, 0 of them ambiguous",
        "1 call: add(a: Float, b: Float)",
    )


def test_explain_fits_100_columns_for_every_operation():
    given = [
        md.Float32Tensor,
        md.Int8Tensor,
        md.CudaFloat32Tensor,
        md.quant.QInt8Tensor,
    ]
    for function in md.operations().values():
        count = 2 if function.operation.sequence else len(function.operation.dispatched)
        for kind in given:
            types = (kind, *[md.Float32Tensor] * (count - 1))
            lines = str(diagnose.explain(function, *types)).splitlines()
            assert max(map(len, lines)) <= 100, (function, kind)
