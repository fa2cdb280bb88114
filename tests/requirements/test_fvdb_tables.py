"""fVDB's dispatch framework: rows F1-F11, F20, F21, F23-F25 of its features.

Restated from `src/dispatch` of openvdb/fvdb-core, its README, examples and tests:
spaces, counts, algorithms and cases are theirs, texts are ours. F12-F19 and F22 are in
test_fvdb_for_each.py.
"""

import copy
import itertools
import pickle
import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import scan
from support.scan import COVERAGE, METHODS, SPACE, Shelf
from support.shelf import shelved

import mdtensor as md
from mdtensor.dispatch import operation
from mdtensor.errors import (
    CoverageError,
    DispatchError,
    OptionError,
    PointError,
    RegistrationError,
    ShapeError,
)
from mdtensor.tables import (
    Adaptive,
    Axes,
    Axis,
    BFloat16,
    BlockSize,
    Contiguity,
    Contiguous,
    Coordinate,
    Cpu,
    Cuda,
    Determinism,
    DeviceType,
    DispatchTable,
    ElementType,
    Float16,
    Float32,
    Float64,
    Floating,
    InPlace,
    Int32,
    Int64,
    Integer,
    NotRequired,
    OutOfPlace,
    Placement,
    Required,
    Scheduling,
    Signed,
    Strided,
    Tag,
    Uniform,
    contiguity,
    placement,
)


class Color(Coordinate, values=("red", "green", "blue")):
    """The three kinds of upstream's own tests."""


class Form(Coordinate, values=("circle", "square", "triangle")):
    """See Color."""


class Size(Coordinate, values=("small", "medium", "large")):
    """See Color."""


class Number(Coordinate, values=(1, 2, 3, 4)):
    """Integers, which upstream uses as coordinates in most of its tests."""


class Other(Coordinate, of=Number):
    """`named`: integers once more, on an axis of their own."""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operations and threads are as before after each test."""
    monkeypatch.setattr(operation, "_OPERATIONS", dict(operation._OPERATIONS))
    before = md.get_num_threads()
    yield
    md.set_num_threads(before)


def text(error: type[Exception], make: Any) -> str:
    with pytest.raises(error) as caught:
        make()
    return str(caught.value)


# --- F1 to F5: tags and spaces --------------------------------------------------------


def test_f1_a_tag_is_an_unordered_set_with_one_value_of_a_type() -> None:
    """F1, row 17; label_tag_axis: the three values in all orders are one type."""
    values = Color["red"], Form["circle"], Size["small"]
    assert len({Tag[order] for order in itertools.permutations(values)}) == 1
    modes = InPlace, Required, Contiguous
    assert len({Tag[order] for order in itertools.permutations(modes)}) == 1
    assert Tag[Color["red"]] is not Tag[Color["green"]]
    assert Tag[Color["red"]] is not Tag[Color["red"], Form["circle"]]
    assert Tag[Cuda, Float32] is Tag[Float32, Cuda]
    with pytest.raises(RegistrationError, match="at least one"):
        Tag[()]
    with pytest.raises(RegistrationError, match="one coordinate of a kind"):
        Tag[Color["red"], Color["green"]]


def test_f2_with_type_and_with_value_are_wider_tags() -> None:
    """F2: `with_type` is the tag of a kind, `with_value` that of a coordinate."""
    tag = Tag[Cpu, Float32, Color["red"]]
    for kind in (DeviceType, ElementType, Color):
        assert issubclass(tag, Tag[kind])
    for kind in (Placement, Determinism, Contiguity):
        assert not issubclass(tag, Tag[kind])
    for value in (Cpu, Float32, Color["red"]):
        assert issubclass(tag, Tag[value])
    for value in (Cuda, Float64, Color["blue"], InPlace):
        assert not issubclass(tag, Tag[value])
    assert issubclass(tag, Tag[Cpu, Float32])
    assert not issubclass(tag, Tag[Cuda, Float32])


def test_f2_with_value_subsumes_with_type() -> None:
    """F2: the method for a value runs before the method for its type."""

    @md.generic
    def found(tag: Any, /) -> Any:
        """Which."""

    @md.method(found)
    def found(tag: Tag[DeviceType], /) -> str:
        return "with type"

    @md.method(found)
    def found(tag: Tag[Cuda], /) -> str:
        return "with value"

    @md.method(found)
    def found(tag: Tag[Cuda, Floating], /) -> str:
        return "with value and concept"

    assert found(Tag[Cpu, Float32]()) == "with type"
    assert found(Tag[Cuda, Int32]()) == "with value"
    assert found(Tag[Float32, Cuda]()) == "with value and concept"


def test_f3_get() -> None:
    """F3: one value, several as a tuple, an error if absent."""
    tag = Tag[Cpu, Float32, InPlace]
    assert tag.get(ElementType) is Float32
    assert tag.get(Placement, DeviceType) == (InPlace, Cpu)
    with pytest.raises(OptionError, match="has no coordinate of Contiguity"):
        tag.get(Contiguity)


def test_f4_add_and_subtract() -> None:
    """F4: add replaces a value of the same type; subtract of what is absent is fine."""
    tag = Tag[Cpu, Float32]
    assert tag.add(BlockSize[128]) is Tag[BlockSize[128], Cpu, Float32]
    assert tag.add(BlockSize[128]).add(BlockSize[256]).get(BlockSize).value == 256
    assert tag.add(BlockSize[128]).drop(BlockSize) is tag
    assert tag.drop(BlockSize) is tag


def test_f4_a_block_size_does_not_enlarge_the_table() -> None:
    """F4, row 32."""
    sizes = []
    table = DispatchTable(SPACE, COVERAGE, lambda tag: tag.add(BlockSize[128]))
    for point in table:
        assert table.select(point)() is point.add(BlockSize[128])
        sizes.append(len(table))
    assert set(sizes) == {28}


def test_f5_axis() -> None:
    """F5; label_tag_axis: extents, the type of the values, the predefined axes."""
    assert len(Axis(Color["red"])) == 1
    assert len(Axis.full(Color)) == 3
    assert Axis(InPlace, OutOfPlace).kind is Placement
    for kind in (Placement, Determinism, Contiguity):
        assert len(Axis.full(kind)) == 2
    assert Axis.full(Floating) == Axis(Float16, BFloat16, Float32, Float64)
    assert len(Axis.full(Signed)) == 4


def test_f5_axes() -> None:
    """F5; label_tag_axis, visit_spaces: a product without an order."""
    three = Axis.full(Color), Axis(Form["circle"], Form["square"]), Axis(Size["large"])
    assert len({Axes(*order) for order in itertools.permutations(three)}) == 1
    space = Axes(*three)
    assert (space.extents, len(space)) == ((3, 2, 1), 6)
    assert len(set(space)) == 6
    assert Tag[Size["large"], Color["red"], Form["square"]] in space
    assert Tag[Size["small"], Color["red"], Form["square"]] not in space


def test_f5_two_axes_of_one_type_are_named() -> None:
    """F5; `named`: the same values on two axes, told apart by their labels."""
    assert Other[1] is Other[Number[1]]
    assert Other[1] is not Number[1]
    space = Axes(Axis(Number[1], Number[2]), Axis(Other[1], Other[3]))
    assert len(space) == 4
    assert Tag[Other[3], Number[1]] in space


def test_f5_every_point_is_visited_once() -> None:
    """F5; visit_spaces: 2 x 2, 3, and 10 x 10 = 100 points, each once."""

    class Row(Coordinate, values=tuple(range(10))):
        """Ten."""

    class Column(Coordinate, values=tuple(range(10))):
        """Ten."""

    table = DispatchTable(
        space := Axes(Axis.full(Row), Axis.full(Column)), space, lambda tag: tag
    )
    seen = [table.select(point)() for point in space]
    assert len(seen) == len(set(seen)) == 100


# --- F6 to F10: tables ----------------------------------------------------------------


def device(point: Any) -> Any:
    return point.get(DeviceType)


def algorithm(point: Any) -> Any:
    """What upstream documents, in examples/functional.cu and in its tests' notes."""
    element, place, det = point.get(ElementType, Placement, Determinism)
    if device(point) is Shelf:
        return scan.of_the_device  # cuda_cub
    if place is InPlace:
        return scan.serial_in_place  # cpu_serial_in_place
    if element in (Int32, Int64):
        return scan.parallel_integer  # cpu_parallel_int_deterministic
    if det is NotRequired:
        return scan.parallel_floating  # cpu_parallel_float_nondeterministic
    return scan.serial_out_of_place  # cpu_serial_out_of_place


def is_declared(point: Any) -> bool:
    """The four subspaces of examples/functional.cu."""
    element, layout, place, det = point.get(
        ElementType, Contiguity, Placement, Determinism
    )
    wanted = Required if element in (Int32, Int64) else NotRequired
    if device(point) is Cpu:
        return wanted is NotRequired or det is Required
    return (layout, place, det) == (Contiguous, OutOfPlace, wanted)


@pytest.fixture
def table() -> DispatchTable:
    return DispatchTable(SPACE, COVERAGE, scan.declare())


DECLARED = [point for point in SPACE if is_declared(point)]
OTHERS = [point for point in SPACE if not is_declared(point)]


def test_f6_28_of_64_points(table: DispatchTable) -> None:
    """F6, row 19: 2 x 4 x 2 x 2 x 2 points, of which 16 + 8 + 2 + 2 are declared."""
    assert (len(SPACE), SPACE.extents) == (64, (2, 4, 2, 2, 2))
    parts = [len(DispatchTable(SPACE, one, scan.declare())) for one in COVERAGE]
    assert parts == [16, 8, 2, 2]
    assert (len(table), len(DECLARED), len(OTHERS)) == (28, 28, 36)
    assert set(table) == set(DECLARED)


def test_f6_the_other_tables_of_the_examples() -> None:
    """F6: relu has 2 x 4 points, softplus 2 x 4 x 2, all of them."""
    relu = Axes(Axis(Cpu, Cuda), Axis.full(Floating))
    softplus = Axes(*relu.axes, Axis.full(Contiguity))
    for space, count in ((relu, 8), (softplus, 16)):
        assert len(DispatchTable(space, space, lambda tag: tag)) == count


@pytest.mark.parametrize("point", DECLARED, ids=str)
def test_f6_the_documented_algorithm(table: DispatchTable, point: Any) -> None:
    """F6, row 18: subsumption picks it at each of the 28 points."""
    assert table.select(point).__func__ is algorithm(point)


def test_f6_the_order_of_definition_changes_nothing() -> None:
    """Row 18: all 120 orders of the five methods give the same table."""
    wanted = {point: algorithm(point) for point in DECLARED}
    orders = list(itertools.permutations(METHODS))
    assert len(orders) == 120
    for order in orders:
        table = DispatchTable(SPACE, COVERAGE, scan.declare(order))
        assert {point: table.handles[point].__func__ for point in table} == wanted


def test_f6_holes_and_ambiguities_are_found_when_the_table_is_built() -> None:
    """Row 22: upstream has no such check; a hole there is a page of templates."""

    def dense(
        tag: Tag[Cpu, Contiguous, OutOfPlace], x: md.Tensor, y: md.Tensor, /
    ) -> None:
        """For dense vectors: neither wider nor narrower than what is there."""

    methods = [m for m in METHODS if m is not scan.of_the_device]
    with pytest.raises(CoverageError) as caught:
        DispatchTable(SPACE, COVERAGE, scan.declare([*methods, dense]))
    error = caught.value
    assert set(error.missing) == {p for p in DECLARED if device(p) is Shelf}
    assert set(error.ambiguous) == {
        point
        for point in DECLARED
        if device(point) is Cpu
        and point.get(Contiguity, Placement) == (Contiguous, OutOfPlace)
        and algorithm(point) is not scan.serial_out_of_place
    }
    said = str(error)
    assert said.startswith("inclusive_scan: 4 of 28 points have no method: Tag[Shelf, ")
    assert "4 of 28 points are ambiguous: Tag[Cpu, Float32, Contiguous, OutOf" in said
    assert all(str(p) in said for p in (*error.missing, *error.ambiguous))
    assert said.endswith(
        f"{ADD}. Resolve it by a method for "
        "Tag[Cpu, Floating, Contiguous, OutOfPlace, NotRequired]; "
        "Tag[Cpu, Integer, Contiguous, OutOfPlace, Required]."
    )


def test_f6_order_of_definition_changes_no_report() -> None:
    """Row 22: the same ambiguity for every order."""

    def dense(tag: Tag[Cpu, Contiguous], x: md.Tensor, y: md.Tensor, /) -> None:
        """See above."""

    found = set()
    for order in itertools.permutations((*METHODS[:3], dense)):
        with pytest.raises(CoverageError) as caught:
            DispatchTable(SPACE, Tag[Cpu, Integer, Required], scan.declare(order))
        found.add((caught.value.missing, caught.value.ambiguous))
    assert len(found) == 1


def test_f7_select_is_apart_from_invoke(table: DispatchTable) -> None:
    """F7: by kind and not by order; what is returned can be called again and again."""
    given = Cpu, Float32, Contiguous, OutOfPlace, Required
    run = table.select(*given)
    for order in itertools.permutations(given):
        assert table.select(*order) is run
    x, out = md.asarray([1.0, 2.0, 3.0]), md.zeros(3)
    for _ in range(3):
        run(x, out)
        assert out.tolist() == [1.0, 3.0, 6.0]


def test_f7_a_handle_runs_the_method_and_nothing_else(table: DispatchTable) -> None:
    """F7: between the caller and the method there is no frame of ours."""
    frames = []

    def probe(tag: Any, x: Any, out: Any) -> None:
        frames.append(sys._getframe(1).f_code)

    probing = table.with_(Tag[Cpu, Float32], probe)
    run = probing.select(Cpu, Float32, Contiguous, OutOfPlace, Required)
    run(None, None)
    assert frames == [sys._getframe().f_code]


def test_f7_try_select(table: DispatchTable) -> None:
    """F7: None where `select` raises, the same handle elsewhere."""
    for point in DECLARED:
        assert table.try_select(point) is table.select(point)
    for point in OTHERS:
        assert table.try_select(point) is None


@pytest.mark.parametrize("point", OTHERS, ids=str)
def test_f8_what_is_not_supported_says_so(table: DispatchTable, point: Any) -> None:
    """F8, row 20: all coordinates, and the nearest points that there are."""
    with pytest.raises(PointError) as caught:
        table.select(*point.coordinates)
    error, mine = caught.value, set(point.coordinates)
    distance = {known: len(mine - set(known.coordinates)) for known in DECLARED}
    least = min(distance.values())
    assert error.point is point
    assert set(error.nearest) == {k for k, far in distance.items() if far == least}
    names = ", ".join(c.__name__ for c in point.coordinates)
    shown = r"Tag\[(?:Cpu|Shelf), (?:Float|Int)(?:32|64), \w+, \w+, \w+\]"
    assert re.fullmatch(
        rf"inclusive_scan\({names}\): the table does not have this point\. "
        rf"Nearest: {shown}(?:; {shown})*(?: and \d+ more)?\.",
        str(error),
    )


def test_f8_the_whole_text(table: DispatchTable) -> None:
    """F8: upstream says "dispatch failed - coordinate not in space"."""
    make = lambda: table.select(Shelf, Float64, Strided, OutOfPlace, NotRequired)  # noqa: E731
    assert text(PointError, make) == (
        "inclusive_scan(Shelf, Float64, Strided, OutOfPlace, NotRequired): the "
        "table does not have this point. Nearest: "
        "Tag[Cpu, Float64, Strided, OutOfPlace, NotRequired]; "
        "Tag[Shelf, Float64, Contiguous, OutOfPlace, NotRequired]."
    )


NUMBERS = Axes(Axis(Number[1], Number[2]))
PAIRS = Axes(*NUMBERS.axes, Axis(Form["circle"], Form["square"]))


def constant(value: int) -> Any:
    return lambda tag: value


def test_f9_with_returns_a_new_table() -> None:
    """F9; WithReturnsNewTable, OriginalTableUnchangedAfterWith."""
    first = DispatchTable(NUMBERS, NUMBERS, constant(10))
    second = first.with_(Tag[Number[2]], constant(20))
    assert [first.select(n)() for n in (1, 2)] == [10, 10]
    assert [second.select(n)() for n in (1, 2)] == [10, 20]
    third = first.with_(NUMBERS, constant(200))
    assert [third.select(n)() for n in (1, 2)] == [200, 200]
    assert [first.select(n)() for n in (1, 2)] == [10, 10]


def test_f9_tables_are_values(table: DispatchTable) -> None:
    """F9; CopyConstruction, CopyAssignment: a copy answers as the table does."""
    for again in (copy.copy(table), copy.deepcopy(table)):
        assert list(again) == list(table)
    numbers = DispatchTable(NUMBERS, NUMBERS, describe)
    assert pickle.loads(pickle.dumps(numbers)).select(2)(5) == numbers.select(2)(5)
    with pytest.raises(AttributeError, match="a table does not change"):
        table.space = NUMBERS


def describe(tag: Any, x: int) -> str:
    return f"{tag!r} {x}"


def test_f10_from_op_and_from_visitor() -> None:
    """F10; FromOp, FromVisitor, FromVisitorLambda: what captures is welcome here."""

    class Op:
        @staticmethod
        def op(tag: Any, x: int) -> int:
            return x * (2 if tag.has(Number[1]) else 3)

    table = DispatchTable(NUMBERS, NUMBERS, Op.op)
    assert (table.select(1)(5), table.select(2)(5)) == (10, 15)

    @md.generic
    def visit(tag: Any, x: Any, /) -> Any:
        """Overloads."""

    @md.method(visit)
    def visit(tag: Tag[Number[1]], x: int, /) -> int:
        return x * 10

    @md.method(visit)
    def visit(tag: Tag[Number[2]], x: int, /) -> int:
        return x * 20

    table = DispatchTable(NUMBERS, NUMBERS, visit, arguments=(int,))
    assert (table.select(1)(3), table.select(2)(3)) == (30, 60)
    captured = 100

    def signed(tag: Any, x: int) -> int:
        return x + captured if tag is Tag[Number[1]]() else x - captured

    table = DispatchTable(NUMBERS, NUMBERS, signed)
    assert (table.select(1)(5), table.select(2)(5)) == (105, -95)


def test_f10_subspaces_and_arguments() -> None:
    """F10; TablesBuiltFromSubspaces, OnlyValidCombinations, Multiple-, NoArguments."""
    part = Axes(Axis(Number[1]), PAIRS.axes[0])
    table = DispatchTable(PAIRS, part, constant(42))
    assert len(table) == 2
    assert [table.select(1, c)() for c in Axis(Form["circle"], Form["square"])] == [
        42,
        42,
    ]
    with pytest.raises(PointError):
        table.select(2, Form["circle"])
    one = DispatchTable(PAIRS, Tag[Number[1], Form["circle"]], constant(1))
    assert one.select("circle", 1)() == 1
    for missing in ((1, "square"), (2, "circle")):
        with pytest.raises(PointError):
            one.select(*missing)
    two = DispatchTable(NUMBERS, NUMBERS, lambda tag, a, b: (a, b))
    assert two.select(1)(3, 4) == (3, 4)


def test_f11_the_predefined_coordinates() -> None:
    """F11: five enumerations, as classes, with names and full axes."""
    full = {
        Placement: [InPlace, OutOfPlace],
        Determinism: [NotRequired, Required],
        Contiguity: [Strided, Contiguous],
        Scheduling: [Uniform, Adaptive],
        BlockSize: [BlockSize[n] for n in (64, 128, 256, 512, 1024)],
    }
    for kind, coordinates in full.items():
        assert list(Axis.full(kind)) == coordinates
        assert all(issubclass(c, kind) for c in coordinates)
    assert str(InPlace) == "InPlace"  # `to_string` there: "in_place"
    assert str(BlockSize[64]) == "BlockSize[64]"


def test_f11_scheduling_goes_on_to_for_each() -> None:
    """F11, F13: upstream's `for_each` takes the tag; ours takes what it has."""

    def count(i: int, y: Any) -> None:
        y[i] = i

    def counted(tag: Any, n: int) -> list[int]:
        y = md.zeros(n, dtype=md.int32)
        scheduling = tag.get(Scheduling).value
        md.for_each(n, count, md.flat_out(y), scheduling=scheduling)
        return y.tolist()

    space = Axes(Axis.full(Scheduling))
    table = DispatchTable(space, space, counted)
    for one in (Uniform, Adaptive):
        assert table.select(one)(5000) == list(range(5000))


# --- F20 to F25: running it -----------------------------------------------------------


@pytest.fixture
def shelf() -> Iterator[Any]:
    with shelved([md.float32, md.float64, md.int32, md.int64]) as place:
        yield place


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> int:
    md.set_num_threads(request.param)
    return request.param


def made(element: Any, layout: Any, n: int, place: Any) -> Any:
    """1, 2, ..., n on `place`, one after the other or with gaps."""
    step = 1 if layout is Contiguous else 2
    wide = np.zeros(n * step, element.value.storage)
    wide[::step] = np.arange(1, n + 1)
    return md.from_numpy(wide[::step]).to(place)


def run(table: DispatchTable, x: Any, place: Any, determinism: Any) -> Any:
    """What users would call: integers are promoted to `Required`, as upstream does."""
    if x.ndim != 1:
        raise ShapeError(f"a scan is for 1 dimension, got {x.ndim}")
    out = x if place is InPlace else type(x).wrap(np.empty_like(x.buffer))
    if x.dtype.is_integer:
        determinism = Required
    asked = x.device, x.dtype, contiguity(x, out), placement(x, out), determinism
    table.select(*asked)(x, out)
    return out


@pytest.mark.parametrize("style", ["functional", "op"])
@pytest.mark.parametrize("n", [0, 1, 100, 100_000])
def test_f23_both_styles_scan(shelf: Any, threads: int, style: str, n: int) -> None:
    """F23; inclusive_scan_examples: overloads, and one function with branches."""
    op = scan.declare() if style == "functional" else scan.branching
    table = DispatchTable(SPACE, COVERAGE, op)
    for point in DECLARED:
        element, layout, place, determinism = point.get(
            ElementType, Contiguity, Placement, Determinism
        )
        on = md.cpu if device(point) is Cpu else shelf
        x = made(element, layout, n, on)
        out = run(table, x, place, determinism)
        exact = np.arange(1, n + 1, dtype=np.int64).cumsum()
        found = np.asarray(on.to_host(out.buffer))
        if element.value.is_integer:
            assert np.array_equal(found, exact.astype(element.value.storage))
        else:
            assert np.allclose(found, exact, rtol=n * np.finfo(found.dtype).eps)


@pytest.mark.parametrize("shape", [(), (10, 20)])
def test_f23_what_is_no_vector_is_refused(
    table: DispatchTable, shape: tuple[int, ...]
) -> None:
    """F23; Rank0_Scalar_Throws, Rank2_Throws."""
    with pytest.raises(ShapeError, match="a scan is for 1 dimension"):
        run(table, md.zeros(shape), OutOfPlace, NotRequired)


def test_f23_what_the_table_has_no_point_for_does_not_run(shelf: Any) -> None:
    """F23; CudaFloat Error_Deterministic, Error_InPlace, Error_Strided."""
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    dense, gaps = made(Float32, Contiguous, 9, shelf), made(Float32, Strided, 9, shelf)
    for x, place, determinism in (
        (dense, OutOfPlace, Required),
        (dense, InPlace, NotRequired),
        (type(gaps).wrap(gaps.buffer[::2]), OutOfPlace, NotRequired),
    ):
        before = x.buffer.copy()
        with pytest.raises(PointError):
            run(table, x, place, determinism)
        assert np.array_equal(x.buffer, before)


def test_f23_required_is_the_same_bytes(rng: np.random.Generator) -> None:
    """Row 33: over numbers of threads and 100 runs; integers in parallel too."""
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    values = rng.standard_normal(20_000).astype(np.float32)
    whole = rng.integers(-(2**31), 2**31, 20_000, np.int32)
    for x in (md.from_numpy(values), md.from_numpy(whole)):
        seen = set()
        for count in (1, 2, 3):
            md.set_num_threads(count)
            for _ in range(100):
                seen.add(run(table, x, OutOfPlace, Required).buffer.tobytes())
        assert len(seen) == 1


def test_f23_not_required_may_round_differently(rng: np.random.Generator) -> None:
    """Row 33: by the number of threads, and within the bound of a running sum."""
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    values = rng.standard_normal(20_000).astype(np.float32)
    exact = np.cumsum(values.astype(np.float64))
    bound = np.finfo(np.float32).eps * 20_000 * np.abs(values).sum(dtype=np.float64)
    seen = set()
    for count in (1, 2, 3, 7):
        md.set_num_threads(count)
        found = run(table, md.from_numpy(values), OutOfPlace, NotRequired).buffer
        assert np.max(np.abs(found - exact)) <= bound
        seen.add(found.tobytes())
    assert len(seen) > 1


def test_f23_in_place_is_the_same_memory() -> None:
    """Row 34: the same address; memory that overlaps otherwise is refused."""
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    x = md.asarray([1.0, 2.0, 3.0, 4.0])
    address = x.buffer.ctypes.data
    out = run(table, x, InPlace, Required)
    assert out is x
    assert x.buffer.ctypes.data == address
    assert x.tolist() == [1.0, 3.0, 6.0, 10.0]
    with pytest.raises(OptionError, match="shares memory"):
        placement(x, x[::-1])


def test_f20_there_is_no_current_device(shelf: Any) -> None:
    """F20; the guard: a method launches on the device of its tensor, whatever ran
    before, so there is nothing to guard or to restore."""
    table = DispatchTable(SPACE, COVERAGE, scan.declare())
    here, there = (
        made(Float32, Contiguous, 5, md.cpu),
        made(Float32, Contiguous, 5, shelf),
    )
    for x in (there, here, there):
        out = run(table, x, OutOfPlace, NotRequired)
        assert out.device is x.device


def test_f21_combined_contiguity() -> None:
    """F21: contiguous only if all are; two kernels for three operands, not eight."""
    dense, gaps = md.zeros((3, 4)), md.zeros((4, 3)).T
    table = DispatchTable(
        Axes(Axis.full(Contiguity)), Axes(Axis.full(Contiguity)), lambda tag, *x: tag
    )
    ran = [
        table.select(contiguity(*operands))(*operands)
        for operands in itertools.product((dense, gaps), repeat=3)
    ]
    assert ran == [Tag[Contiguous]()] + [Tag[Strided]()] * 7
    assert len(table) == 2


def test_f24_nothing_is_compiled_or_run_by_a_declaration() -> None:
    """F24: a table of 28 points is 28 bound methods; nothing ran."""

    def never(tag: Any, x: Any, out: Any) -> None:
        raise AssertionError

    table = DispatchTable(SPACE, COVERAGE, never)
    assert {handle.__func__ for handle in table.handles.values()} == {never}


MIXED = "Give coordinates of one kind"
ONCE = "A tag has one coordinate of a kind"
ADD = "Add a method for each, or leave the points out of the coverage"
SPACE_IS = f"The space is {NUMBERS}"
ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: Axis(Number[1], Form["circle"]),
        RegistrationError,
        f"Number[1] is of Number, Form[circle] of Form. {MIXED}.",
    ),
    (
        lambda: Axis(Number[1], Number[1]),
        RegistrationError,
        ("Number[1] is twice on the axis Number. Give it once."),
    ),
    (
        lambda: Axes(Axis(Number[1]), Axis(Number[2])),
        RegistrationError,
        "two axes are of Number. Name one: class Other(Coordinate, of=Number).",
    ),
    (
        lambda: Tag[Number[1], Number[2]],
        RegistrationError,
        f"Number[1] and Number[2] are both of Number. {ONCE}.",
    ),
    (
        lambda: DispatchTable(NUMBERS, Axes(Axis(Number[1], Number[3])), constant(0)),
        RegistrationError,
        f"Axes(Axis(Number[1], Number[3])) is not in the space. {SPACE_IS}.",
    ),
    (
        lambda: DispatchTable(NUMBERS, NUMBERS, only_one()),
        CoverageError,
        f"op: 1 of 2 points have no method: Tag[Number[2]]. {ADD}.",
    ),
    (
        lambda: DispatchTable(NUMBERS, NUMBERS, constant(0)).select(1.5),
        DispatchError,
        (
            "<lambda>(1.5): 1.5 is not a coordinate of this space. Give one class or "
            "value for each of Number."
        ),
    ),
]


def only_one() -> Any:
    @md.generic
    def op(tag: Any, /) -> Any:
        """IncompleteOp: there is nothing for 2."""

    @md.method(op)
    def op(tag: Tag[Number[1]], /) -> int:
        return 1

    return op


@pytest.mark.parametrize(
    ("make", "error", "said"),
    ERRORS,
    ids=["axis-mixed", "axis-twice", "axes", "tag", "coverage", "overload", "tuple"],
)
def test_f25_errors_of_definition(make: Any, error: Any, said: str) -> None:
    """F25, row 23: at the definition; upstream checks only that it fails."""
    assert text(error, make) == said
