"""The operators of tensors: the calls of their operations, with `self` in one place."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from mdtensor import operators
from mdtensor.stubs.overloads import Calls, Overload
from mdtensor.stubs.probe import SCALARS
from mdtensor.stubs.render import function

_OPERATOR_NUMBERS = {t.__name__ for t in SCALARS}
#: NumPy's arrays and numbers become tensors of their own type.
_OPERATOR_ARRAYS = "(self, other: np.ndarray[Any, Any] | np.generic, /) -> Any"


def methods(calls: Calls) -> dict[str, list[str]]:
    """The text of each operator's method by its name."""
    tree = ast.parse(inspect.getsource(operators.Operators))
    found: dict[str, list[str]] = {}
    alike: dict[tuple[str, ...], str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return):
            called = node.body[-1].value
            if isinstance(called, ast.Call) and node.name.startswith("__"):
                signatures = _signatures(calls, called)
                first = alike.setdefault(tuple(signatures), node.name)
                text = [line[4:] for line in function(node.name, signatures)]
                same = first != node.name
                found[node.name] = [f"{node.name} = {first}"] if same else text
    return {name: lines for name, lines in found.items() if lines}


def _signatures(calls: Calls, called: ast.Call) -> list[str]:
    way = ast.unparse(called.func)
    words = called.args if way in ("_binary", "_in_place") else [called.func]
    operation = eval(ast.unparse(words[0]), vars(operators))
    if not hasattr(operation, "operation"):
        return []
    overloads = calls.tensors(operation.operation)
    if way == "_in_place":
        signatures = _in_place(overloads)
    elif len(called.args) == 1:
        signatures = (_operator_signature(o.places, o.result) for o in overloads)
    else:
        is_reflected = ast.unparse(called.args[-1]) == "self"
        signatures = _reflected(overloads) if is_reflected else _forward(overloads)
    return list(dict.fromkeys(signatures))


def _operator_signature(places: tuple[str, ...], result: str) -> str:
    others = "".join(f", other: {hint}" for hint in places[1:])
    return f"(self: {places[0]}{others}, /) -> {result}"


def _forward(overloads: list[Overload]) -> Iterator[str]:
    for overload in overloads:
        own = tensors(overload.places[0])
        if own:
            yield _operator_signature((own, overload.places[1]), overload.result)
    yield _OPERATOR_ARRAYS


def _reflected(overloads: list[Overload]) -> Iterator[str]:
    """Only what is no tensor is asked last."""
    for overload in overloads:
        own, other = tensors(overload.places[1]), _numbers(overload.places[0])
        if own and other:
            yield _operator_signature((own, other), overload.result)
    yield _OPERATOR_ARRAYS


def _in_place(overloads: list[Overload]) -> Iterator[str]:
    """The result is written into the tensor, so it has its type."""
    for overload in overloads:
        if overload.result in overload.places[0].split(" | "):
            yield _operator_signature(
                (overload.result, overload.places[1]), overload.result
            )
    yield "(self, other: np.ndarray[Any, Any] | np.generic, /) -> Self"


def tensors(union: str) -> str:
    """A union of types without Python's numbers."""
    return " | ".join(
        word for word in union.split(" | ") if word not in _OPERATOR_NUMBERS
    )


def _numbers(union: str) -> str:
    return " | ".join(word for word in union.split(" | ") if word in _OPERATOR_NUMBERS)
