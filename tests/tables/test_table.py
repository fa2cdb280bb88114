"""Dispatch tables: built once, selected from, changed by copy."""

import copy
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from support import scan
from support.scan import COVERAGE, METHODS, SPACE, Shelf

import mdtensor as md
from mdtensor import diagnose
from mdtensor.errors import CoverageError, DispatchError, PointError, RegistrationError
from mdtensor.tables import (
    Axes,
    Axis,
    BlockSize,
    Contiguous,
    Cpu,
    DispatchTable,
    Float16,
    Float32,
    Floating,
    InPlace,
    Int32,
    Integer,
    NotRequired,
    OutOfPlace,
    Required,
    Strided,
    Tag,
    Uniform,
)

SMALL = Axes(Axis(Cpu, Shelf), Axis(Float32, Int32))


def named(tag: Any, *rest: Any) -> Any:
    """A callable that is no operation: its point, and what else it is given."""
    return str(type(tag)), rest


def text(error: type[Exception], make: Any) -> str:
    with pytest.raises(error) as caught:
        make()
    return str(caught.value)


def test_the_handle_is_the_method_bound_to_its_tag() -> None:
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    handle = table.select(Cpu, Float32, Strided, InPlace, Required)
    assert handle.__func__ is scan.serial_in_place
    assert handle.__self__ is Tag[Cpu, Float32, Strided, InPlace, Required]()
    assert table.handles[type(handle.__self__)] is handle


def test_any_order_any_spelling_one_handle() -> None:
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    given = md.cpu, md.float32, Strided, InPlace, Required
    handle = table.select(*given)
    for order in itertools.permutations(given):
        assert table.select(*order) is handle
        assert table.try_select(*order) is handle
    assert table.select(handle.__self__) is handle
    assert table.select(Tag[Cpu, Float32, Strided, InPlace, Required]) is handle
    assert table.select(Tag[Cpu, InPlace], Tag[Required], Strided, Float32) is handle


def test_what_was_asked_is_answered_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = DispatchTable(SMALL, Tag[Cpu], named)
    found = table.select(md.cpu, Int32), table.try_select(Shelf, Int32)
    monkeypatch.delattr(Axes, "point")
    assert (table.select(md.cpu, Int32), table.try_select(Shelf, Int32)) == found
    with pytest.raises(AttributeError):
        table.select(Int32, md.cpu)


def test_a_callable_that_is_no_operation() -> None:
    table = DispatchTable(SMALL, SMALL, named)
    assert table.select(Cpu, Int32)(1, 2) == ("Tag[Cpu, Int32]", (1, 2))
    assert table.select(Cpu, Int32)() == ("Tag[Cpu, Int32]", ())
    seen = 100
    table = DispatchTable(SMALL, [Tag[Cpu]], lambda tag, x: x + seen)
    assert table.select(Cpu, Int32)(5) == 105


def test_building_runs_no_method() -> None:
    ran: list[Any] = []
    DispatchTable(SMALL, SMALL, ran.append)
    assert ran == []


def test_only_declared_points_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = scan.declare()
    asked = []
    select = operation.operation.select
    monkeypatch.setattr(
        operation.operation, "select", lambda *t: asked.append(t[0]) or select(*t)
    )
    table = DispatchTable(SPACE, COVERAGE, operation)
    assert len(asked) == len(set(asked)) == len(table) == 28
    table.select(asked[0])
    assert len(asked) == 28


def test_coverage_is_a_union() -> None:
    part = Axes(Axis(Cpu), Axis(Float32, Int32))
    point = Tag[Cpu, Float32]
    for coverage in (part, [part], [Tag[Cpu]], Tag[Cpu], (Tag[Cpu], part, point)):
        assert set(DispatchTable(SMALL, coverage, named)) == set(part)
    assert set(DispatchTable(SMALL, (t for t in [point]), named)) == {point}
    assert len(DispatchTable(SMALL, Tag, named)) == 4
    empty: Any
    for empty in ((), [], iter(())):
        with pytest.raises(RegistrationError) as caught:
            DispatchTable(SMALL, empty, named)
        assert str(caught.value) == (
            "the coverage is empty. Give tags and spaces; the space itself covers all "
            "points."
        )


def test_what_a_table_shows() -> None:
    table = DispatchTable(SMALL, Tag[Integer], named)
    assert repr(table) == "<DispatchTable named: 2 of 4 points>"
    assert list(table) == [Tag[Cpu, Int32], Tag[Shelf, Int32]]
    assert Tag[Cpu, Int32] in table
    assert Tag[Cpu, Float32] not in table


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (Tag[Float16], "Tag[Float16]"),
        (Tag[Cpu, Uniform], "Tag[Cpu, Uniform]"),
        (Axes(Axis(Cpu)), "Axes(Axis(Cpu))"),
        (
            Axes(Axis(Cpu), Axis(Int32, Float16)),
            "Axes(Axis(Cpu), Axis(Int32, Float16))",
        ),
        (Cpu, "Cpu"),
        (3, "3"),
    ],
)
def test_coverage_beyond_the_space_is_refused(part: Any, shown: str) -> None:
    said = f"{shown} is not in the space. The space is {SMALL}."
    for coverage in ([part], [SMALL, part], part):
        make = partial(DispatchTable, SMALL, coverage, named)
        assert text(RegistrationError, make) == said


def test_what_is_no_operation_is_refused() -> None:
    said = text(RegistrationError, lambda: DispatchTable(SMALL, SMALL, 3))
    assert said == "3 is not an operation. Give a callable."
    said = text(RegistrationError, lambda: DispatchTable(SMALL, SMALL, len))
    assert said == (
        "len is not an operation. Pass an operation that @generic declared, or a "
        "function whose "
        "first parameter is a tag."
    )
    said = text(RegistrationError, lambda: DispatchTable(Axis(Cpu), SMALL, named))
    assert said == "Axis is not a space. Give Axes(...)."


def test_all_holes_are_reported_at_once() -> None:
    without = [m for m in METHODS if m is not scan.serial_in_place]
    with pytest.raises(CoverageError) as caught:
        DispatchTable(SPACE, COVERAGE, scan.declare(without))
    error = caught.value
    holes = [p for p in SPACE if issubclass(p, Tag[Cpu, InPlace])]
    wanted = [p for p in holes if not issubclass(p, Tag[Integer, NotRequired])]
    assert (set(error.missing), error.ambiguous) == (set(wanted), ())
    assert str(error) == (
        "inclusive_scan: 12 of 28 points have no method: "
        + "; ".join(map(str, error.missing))
        + ". Add a method for each, or leave the points out of the coverage."
    )


def second(
    tag: Tag[Cpu, OutOfPlace, Contiguous], x: md.Tensor, y: md.Tensor, /
) -> None:
    """Neither below nor above what is written for integers and floats."""


def test_all_ambiguous_points_are_reported_at_once() -> None:
    with pytest.raises(CoverageError) as caught:
        DispatchTable(SPACE, COVERAGE, scan.declare([*METHODS, second]))
    error = caught.value
    assert error.missing == ()
    assert {str(point) for point in error.ambiguous} == {
        "Tag[Cpu, Float32, Contiguous, OutOfPlace, NotRequired]",
        "Tag[Cpu, Float64, Contiguous, OutOfPlace, NotRequired]",
        "Tag[Cpu, Int32, Contiguous, OutOfPlace, Required]",
        "Tag[Cpu, Int64, Contiguous, OutOfPlace, Required]",
    }
    said = str(error)
    assert said.startswith("inclusive_scan: 4 of 28 points are ambiguous: Tag[Cpu, ")
    shown = "(Tag[Cpu, Contiguous, OutOfPlace], Tensor, Tensor) at "
    assert said.count(shown) == 4
    assert "(Tag[Cpu, OutOfPlace], " not in said  # others are more specific
    assert said.endswith(
        ". Resolve it by a method for "
        "Tag[Cpu, Floating, Contiguous, OutOfPlace, NotRequired]; "
        "Tag[Cpu, Integer, Contiguous, OutOfPlace, Required]."
    )


def test_the_checker_finds_the_same() -> None:
    """Over the points of the space, without a table; it knows nothing of tags."""
    operation = scan.declare([*METHODS, second])
    with pytest.raises(CoverageError) as caught:
        DispatchTable(SPACE, COVERAGE, operation)
    report = diagnose.analyze(operation, universe=[*SPACE, md.Float32Tensor])
    found = [one for one in report.findings if one.rule == "MDT001"]
    assert sum(one.count for one in found) == len(caught.value.ambiguous) == 4
    assert {one.witness[0] for one in found} <= set(map(str, caught.value.ambiguous))


def floats(
    tag: Tag[Cpu, Floating, Contiguous, OutOfPlace, NotRequired],
    x: md.Tensor,
    y: md.Tensor,
    /,
) -> None:
    """The first way out that the error names."""


def integers(
    tag: Tag[Cpu, Integer, Contiguous, OutOfPlace, Required],
    x: md.Tensor,
    y: md.Tensor,
    /,
) -> None:
    """The second."""


def test_the_way_out_of_an_ambiguity_works() -> None:
    """It decides the points that were ambiguous, and no others."""
    methods = [*METHODS, second, floats, integers]
    table = DispatchTable(SPACE, COVERAGE, scan.declare(methods))
    before = DispatchTable(SPACE, COVERAGE, scan.declare())
    for point in table:
        wanted = before.handles[point].__func__
        if point.has(Cpu, Contiguous, OutOfPlace):
            wanted = {
                scan.parallel_floating: floats,
                scan.parallel_integer: integers,
                scan.serial_out_of_place: second,
            }[wanted]
        assert table.handles[point].__func__ is wanted


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_way_out_is_the_narrower_of_each_kind(order: tuple[int, int]) -> None:
    def floating(tag: Tag[Cpu, Floating], /) -> None:
        """Any float, on the host."""

    def single(tag: Tag[Float32], /) -> None:
        """Single precision, anywhere."""

    @md.generic
    def one(tag: Any, /) -> Any:
        """Either."""

    for at in order:
        md.method(one)((floating, single)[at])
    said = text(CoverageError, lambda: DispatchTable(SMALL, Tag[Float32], one))
    assert said.endswith(". Resolve it by a method for Tag[Cpu, Float32].")


def test_holes_and_ambiguities_are_one_error() -> None:
    methods = [m for m in (*METHODS, second) if m is not scan.of_the_device]
    with pytest.raises(CoverageError) as caught:
        DispatchTable(SPACE, COVERAGE, scan.declare(methods))
    error = caught.value
    assert (len(error.missing), len(error.ambiguous)) == (4, 4)
    assert "4 of 28 points have no method: " in str(error)
    assert ". 4 of 28 points are ambiguous: " in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.missing, again.ambiguous) == (
        str(error),
        error.missing,
        error.ambiguous,
    )


def test_the_other_arguments_have_types_too() -> None:
    @md.generic
    def scale(tag: Any, x: Any, by: Any, /) -> Any:
        """x times by."""

    @md.method(scale)
    def scale(tag: Tag[Cpu], x: md.FloatingTensor, by: float, /) -> str:
        return "by a float"

    with pytest.raises(CoverageError):
        DispatchTable(SMALL, Tag[Cpu], scale)
    types = (md.Float32Tensor, float)
    for bad, shown in (((float,), "float"), ((), "none"), ((1, float), "1, float")):
        make = partial(DispatchTable, SMALL, Tag[Cpu], scale, arguments=bad)
        assert text(RegistrationError, make) == (
            f"scale: arguments are {shown}. Give a type for each of x, by."
        )
    table = DispatchTable(SMALL, Tag[Cpu], scale, arguments=types)
    assert table.select(Cpu, Float32)(md.zeros(2), 2.0) == "by a float"


def test_point_errors_pickle_and_know_their_fields() -> None:
    table = DispatchTable(SMALL, [Tag[Cpu, Float32]], named)
    with pytest.raises(PointError) as caught:
        table.select(Shelf, md.int32)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.point is Tag[Shelf, Int32]
    assert error.nearest == (Tag[Cpu, Float32],)
    nearest = "Nearest: Tag[Cpu, Float32]"
    said = f"named(Shelf, Int32): the table does not have this point. {nearest}."
    assert str(error) == str(caught.value) == said
    assert isinstance(error, DispatchError)


def test_wrong_coordinates_are_errors_of_the_caller() -> None:
    table = DispatchTable(SMALL, SMALL, named)
    for ask in (table.select, table.try_select):
        assert text(DispatchError, lambda ask=ask: ask(Cpu, Uniform)) == (
            "named(Cpu, Uniform): Scheduling is not an axis of the space. Give one "
            "class or value for each of DeviceType, ElementType."
        )
        said = text(DispatchError, lambda ask=ask: ask(Cpu, [1, 2]))
        assert said.startswith("named(Cpu, list): list is not a coordinate of")
        said = text(DispatchError, lambda ask=ask: ask("Cpu", Int32))
        assert said == "named(Cpu, Int32): 'Cpu' is a str. Give the class Cpu."
    assert table.try_select(Cpu, Float16) is None
    assert table.try_select(Cpu, md.complex64) is None


def test_with_gives_a_new_table() -> None:
    def other(tag: Any) -> str:
        return "other"

    table = DispatchTable(SMALL, Tag[Cpu], named)
    more = table.with_(Tag[Int32], other)
    assert (len(table), len(more), len(more.with_((), other))) == (2, 3, 3)
    assert table.select(Cpu, Int32)()[0] == "Tag[Cpu, Int32]"
    assert more.select(Cpu, Int32)() == more.select(Shelf, Int32)() == "other"
    assert more.select(Cpu, Float32) is table.select(Cpu, Float32)
    assert table.try_select(Shelf, Int32) is None
    assert text(RegistrationError, lambda: table.with_(Tag[Float16], other))


def test_a_later_method_is_for_later_tables() -> None:
    operation = scan.declare()
    table = DispatchTable(SPACE, COVERAGE, operation)
    point = Tag[Cpu, Float32, Contiguous, InPlace, Required]

    def newer(
        tag: Tag[Cpu, InPlace, Contiguous], x: md.Tensor, y: md.Tensor, /
    ) -> None:
        """In place, for dense vectors."""

    md.method(operation)(newer)
    assert table.select(point).__func__ is scan.serial_in_place
    assert DispatchTable(SPACE, COVERAGE, operation).select(point).__func__ is newer


def test_tables_do_not_change() -> None:
    table = DispatchTable(SMALL, SMALL, named)
    for name in ("space", "handles", "_handles", "other"):
        with pytest.raises(AttributeError, match=f"does not change: {name} cannot"):
            setattr(table, name, {})
    with pytest.raises(TypeError):
        table.handles[Tag[Cpu, Int32]] = None


def test_tables_copy_and_pickle() -> None:
    table = DispatchTable(SMALL, Tag[Cpu], named).with_(Tag[Int32], named)
    for again in (
        copy.copy(table),
        copy.deepcopy(table),
        pickle.loads(pickle.dumps(table)),
    ):
        assert again is not table
        assert list(again) == list(table)
        assert again.handles == table.handles
        assert again.select(Cpu, Int32)(1) == table.select(Cpu, Int32)(1)


def test_eight_threads_select() -> None:
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    points = list(table) * 20
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(table.select, points))
    assert found == [table.handles[point] for point in points]


def test_a_block_size_rides_along() -> None:
    """A tag with more in it chooses the method of another operation."""

    @md.generic
    def launch(tag: Any, x: Any, /) -> Any:
        """Run over a grid."""

    @md.method(launch)
    def launch(tag: Tag[BlockSize], x: md.Tensor, /) -> int:
        return tag.get(BlockSize).value

    @md.method(launch)
    def launch(tag: Tag[BlockSize[64], Cpu], x: md.Tensor, /) -> str:
        return "small, on the host"

    def run(tag: Any, x: md.Tensor) -> Any:
        size = BlockSize[64] if tag.has(Cpu) else BlockSize[256]
        return launch(tag.add(size)(), x)

    before = DispatchTable(SMALL, SMALL, named)
    table = DispatchTable(SMALL, SMALL, run)
    assert len(table) == len(before) == 4
    x = md.zeros(3)
    assert table.select(Cpu, Float32)(x) == "small, on the host"
    assert table.select(Shelf, Float32)(x) == 256
