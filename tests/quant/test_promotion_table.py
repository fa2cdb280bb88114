"""docs/reference/quantized-operations.md agrees with the calls; no pair is open.

Each error names both types and every grid, and what it advises leads to a result.
"""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QParams, dequantize, quantize, requantize
from mdtensor.quant.ops.errors import BEFORE

DOCS = Path(__file__).parents[2] / "docs"


def load() -> ModuleType:
    path = DOCS / "generate" / "quantized_operations.py"
    spec = importlib.util.spec_from_file_location("generate_quantized", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = load()
ERRORS = {"PromotionError", "GridError", "OptionError", "NoMethodError"}
OF_TWO = GENERATE.of_operands(2)
#: What takes tensors only says so of the types, whatever the grid.
NUMBERS = [type(number) for number in GENERATE.NUMBERS]


@pytest.mark.long
def test_the_page_is_what_the_calls_give() -> None:
    text = GENERATE.PAGE.read_text()
    assert GENERATE.page(text) == text, f"run {GENERATE.__file__}"


def test_every_operation_with_a_method_for_codes_is_on_the_page() -> None:
    found, layers = {*OF_TWO, *GENERATE.of_operands(1)}, GENERATE.of_operands(3)
    assert layers == ["gru", "lstm", "rnn"]
    found |= {*layers}
    assert found == set(GENERATE.operations())
    text = GENERATE.PAGE.read_text()
    assert [name for name in found if f"`{name}`" not in text] == []
    known = {"add", "matmul", "conv2d", "stack", "not_equal", "greater_equal"}
    assert known <= set(OF_TWO)
    assert {"relu", "max", "pad", "requantize"} <= found - set(OF_TWO)


def test_every_leaf_type_of_the_host_is_on_the_page() -> None:
    text = GENERATE.PAGE.read_text()
    for kind in md.leaves():
        if kind.device is md.cpu:
            assert kind.__name__.removesuffix("Tensor") in text


@pytest.mark.parametrize("name", OF_TWO)
def test_every_pair_has_a_type_or_an_error_with_a_way_out(name: str) -> None:
    for pair in GENERATE.pairs():
        for found in filter(None, GENERATE.cell(name, *pair)):
            error, separator, rest = found.partition(": ")
            assert not separator or error in ERRORS
            assert not separator or rest.count(". ") >= 1, (pair, found)


def is_commutative(name: str) -> bool:
    """Whether its operands have one part to play: they are `x1` and `x2`, or a row."""
    operation = GENERATE.operations()[name].function.operation
    return operation.sequence or {"x1", "x2"} <= set(operation.dispatched)


@pytest.mark.parametrize("name", [*filter(is_commutative, OF_TWO)])
def test_the_order_of_the_types_does_not_matter(name: str) -> None:
    for first, second in GENERATE.pairs():
        there, back = (first, second), (second, first)
        found = [kinds(GENERATE.cell(name, *pair)) for pair in (there, back)]
        assert found[0] == found[1], there


def kinds(cell: Any) -> list[str]:
    """Types of results, and of errors."""
    return [found.partition(":")[0] for found in cell]


# --- what the errors say --------------------------------------------------------------


def refused(name: str) -> Iterator[tuple[Any, list[Any], dict[str, Any], Any]]:
    """Types, arguments and options of each call that is refused, and its error."""
    outs = [{}, {"out": QParams(0.25)}] if GENERATE.operations()[name].rounds else [{}]
    for pair in GENERATE.pairs():
        arguments, options = GENERATE.prepared(name, pair, GENERATE.OTHER)
        for out in outs:
            given = {**options, **out}
            try:
                GENERATE.call(name, arguments, **given)
            except md.MdtensorError as error:
                yield pair, arguments, given, error


@pytest.mark.parametrize("name", OF_TWO)
def test_errors_name_both_types_and_every_grid(name: str) -> None:
    for pair, arguments, _, error in refused(name):
        for kind in pair:
            known = kind if isinstance(kind, type) else type(kind)
            assert known.__name__ in error.call, error
        if isinstance(error, md.NoMethodError):
            assert set(map(type, pair)) & set(NUMBERS), error
            continue
        for x in arguments:
            if isinstance(x, quant.QuantizedTensor):
                assert f"({x.qparams.describe()})" in error.problem, error


def is_codes(x: Any) -> bool:
    return isinstance(x, quant.QuantizedTensor)


def of_all(change: Callable[[Any, Any], Any]) -> Callable[[list[Any]], list[Any]]:
    """Each argument changed, which is given the first quantized one too."""

    def changed(arguments: list[Any]) -> list[Any]:
        q = next(filter(is_codes, arguments))
        return [change(x, q) for x in arguments]

    return changed


def narrowed(x: Any, _: Any = None) -> Any:
    """On a grid of 8 bits."""
    return requantize(x, out=QParams(0.5)) if is_codes(x) else x


def accumulators_narrowed(x: Any, _: Any) -> Any:
    return narrowed(x) if isinstance(x, quant.QInt32Tensor) else x


def numbers(x: Any, _: Any = None) -> Any:
    return dequantize(x) if is_codes(x) else x


def second_like_first(arguments: list[Any]) -> list[Any]:
    first, second = arguments
    return [first, requantize(second, out=first.qparams)]


#: What an error advises, and how it is done.
WAYS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "dequantize(q)": of_all(numbers),
    "dequantize(x)": of_all(numbers),
    "dequantize(x), and quantize the result": of_all(numbers),
    "dequantize(q) with astype(x, float32)": of_all(
        lambda x, q: dequantize(x) if is_codes(x) else md.astype(x, md.float32)
    ),
    "dequantize(q), and abs(x) of the complex operand": of_all(
        lambda x, q: dequantize(x) if is_codes(x) else abs(x)
    ),
    "quantize(x, q.qparams)": of_all(
        lambda x, q: x if is_codes(x) else quantize(x, q.qparams)
    ),
    "quantize(asarray(float(c)), q.qparams)": of_all(
        lambda x, q: x if is_codes(x) else quantize(md.asarray(float(x)), q.qparams)
    ),
    "quantize(asarray(float(c)), QParams(...)): codes of any two grids compare "
    "exactly": of_all(
        lambda x, q: x if is_codes(x) else quantize(md.asarray(float(x)), QParams(0.25))
    ),
    "q.codes for arithmetic on codes": of_all(
        lambda x, q: x.codes if is_codes(x) else x
    ),
    "type(q)(codes, q.qparams)": of_all(
        lambda x, q: x if is_codes(x) else type(q)(x.tolist(), q.qparams)
    ),
    "requantize(x, out=QParams(...)) to give both one type": of_all(narrowed),
    "requantize(x, out=QParams(...)) to bring both to 8 bits": of_all(narrowed),
    "requantize(x, out=QParams(...)) to 8 bits": of_all(narrowed),
    "requantize(x, out=QParams(...)) to bring one to the grid of the other": (
        second_like_first
    ),
    "requantize one to the grid of the other": second_like_first,
    "requantize(acc, out=QParams(...)) first": of_all(accumulators_narrowed),
}
#: Ways that are another `out=`; the second wants other arguments, which are many.
PASS, LEAVE = "out=QParams(...)", "them"


NEAR = "a number on the grid, such as "


def near(way: str) -> Callable[[list[Any]], list[Any]]:
    """The number that is named in place of Python's."""
    number = float(way.removeprefix(NEAR))
    return of_all(lambda x, q: x if is_codes(x) else number)


def ways(fix: str) -> list[str]:
    """`Use a, or b` as [a, b]; one that has a comma of its own is one."""
    for verb in ("Use ", "Pass ", "Omit "):
        fix = fix.removeprefix(verb)
    # `out=` with a tensor is tested where plain operations are.
    plain = fix.removesuffix(", or pass the tensor to write into")
    if plain != fix:
        return plain.split(", ")
    return [fix] if fix in WAYS else fix.split(", or ")


@pytest.mark.parametrize("name", OF_TWO)
def test_what_errors_advise_leads_to_a_result(name: str) -> None:
    for pair, arguments, options, error in refused(name):
        if isinstance(error, md.NoMethodError):
            continue
        for way in ways(error.fix):
            follow(name, way, arguments, dict(options), (pair, error))


def follow(
    name: str, way: str, arguments: list[Any], options: dict[str, Any], where: Any
) -> None:
    """Do as the error says, with `out=` or without."""
    options.pop("out", None)
    if way.startswith(PASS):
        GENERATE.call(name, arguments, **options, out=QParams(0.25))
    elif way == LEAVE:
        GENERATE.call(name, arguments, **options)
    elif way != "quantize the arguments first":
        first = len(BEFORE.get(name, ()))
        change = near(way) if way.startswith(NEAR) else WAYS[way]
        changed = [*arguments[:first], *change(arguments[first:])]
        try:
            GENERATE.call(name, changed, **options)
        except md.GridError as error:  # says to pass out=
            assert error.fix.startswith("Pass out="), (where, error)
            GENERATE.call(name, changed, **options, out=QParams(0.25))
