"""Stubs of creation functions, of operators and of methods of tensors.

Creation functions are called with sample values, because their result types depend on
values.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import operators
from mdtensor.dispatch.operation import Operation
from mdtensor.operators import is_operation
from mdtensor.stubs.overloads import (
    INDENT,
    Calls,
    Overload,
    function,
    is_wrapper,
    of_arrays,
    signature,
)
from mdtensor.stubs.probe import SCALARS
from mdtensor.tensor import Tensor

Made = tuple[dict[str, str], str]
_NUMBERS = {"bool": True, "int": 1, "float": 1.0, "complex": 1j}
_SHAPE = {"shape": "Shape"}
#: For each function: types of parameters, and sample values of one call.
_SAMPLES: dict[str, list[tuple[dict[str, str], dict[str, Any]]]] = {
    "empty": [(_SHAPE, {"shape": 1})],
    "zeros": [(_SHAPE, {"shape": 1})],
    "ones": [(_SHAPE, {"shape": 1})],
    "eye": [({}, {"n_rows": 1})],
    "full": [
        ({**_SHAPE, "fill_value": hint}, {"shape": 1, "fill_value": value})
        for hint, value in _NUMBERS.items()
    ],
    "arange": [
        (dict.fromkeys(("start", "stop", "step"), hint), {"start": value})
        for hint, value in (("int", 1), ("float", 1.0))
    ],
    "linspace": [
        (dict.fromkeys(("start", "stop"), hint), {"start": v, "stop": v, "num": 1})
        for hint, v in (("float", 1.0), ("complex", 1j))
    ],
    "asarray": [
        *(({"obj": f"Nested[{hint}]"}, {"obj": v}) for hint, v in _NUMBERS.items()),
    ],
    "fftfreq": [({}, {"n": 2})],
    "rfftfreq": [({}, {"n": 2})],
}
NAMES = frozenset(_SAMPLES)
#: Python's buffers, and the tensors of their elements; some have any element type.
_BUFFERS = {
    "bytes | bytearray": type(md.asarray(b"")).__name__,
    "memoryview[Any] | array[Any]": "Any",
}
#: NumPy's element types, by the names in NumPy's own stubs.
_ARRAYS = ("bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))
_ARRAYS += ("float16", "float32", "float64", "complex64", "complex128")


def overloads(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the signatures of one function, with `dtype=` and without."""
    parameters = inspect.signature(function).parameters
    samples = _SAMPLES[name]
    if name == "asarray":
        yield from _arrays(parameters)
    for hints, values in samples:
        yield _signature(
            parameters, {**hints, "dtype": "None"}, _result_name(function, values)
        )
    wide = {**samples[0][0], **dict.fromkeys(set(samples[-1][0]) - {"shape"}, "Any")}
    for dtype, result in (("DType[_T]", "_T"), ("DTypeName", "Any")):
        yield _signature(parameters, {**wide, "dtype": dtype}, result)
    if name == "asarray":
        yield _signature(parameters, {"dtype": "None"}, "Any")


def _arrays(parameters: Any) -> Iterator[str]:
    yield _signature(parameters, {"obj": "_T", "dtype": "None"}, "_T")
    # To a checker they are sequences of integers; here they are buffers.
    for buffers, result in _BUFFERS.items():
        yield _signature(parameters, {"obj": buffers, "dtype": "None"}, result)
    for name in _ARRAYS:
        result = type(md.asarray(np.zeros(1, name))).__name__
        yield _signature(parameters, {"obj": _array(name), "dtype": "None"}, result)


def _array(name: str) -> str:
    return f"_{name.title().replace('Ui', 'UI')}ArrayT"


def variables() -> Iterator[str]:
    """Yield a type variable for each type of array.

    With the plain type mypy would infer `asarray(numpy.ones((2, 3), dtype))` backwards
    from the first overload, an array of bool.
    """
    for name in _ARRAYS:
        bound = f"NDArray[np.{name.replace('bool', 'bool_')}]"
        yield f'{_array(name)} = TypeVar("{_array(name)}", bound={bound})'


def _result_name(function: Callable[..., Any], values: dict[str, Any]) -> str:
    given = dict(values)
    # Parameters by position come first, in the order of the declaration.
    first = [
        given.pop(p.name)
        for p in inspect.signature(function).parameters.values()
        if p.kind is not p.KEYWORD_ONLY and p.name in given
    ]
    return type(function(*first, **given)).__name__


def _signature(parameters: Any, hints: dict[str, str], result: str) -> str:
    words, last = [], None
    for p in parameters.values():
        if last is p.POSITIONAL_ONLY and p.kind is not last:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and last is not p.KEYWORD_ONLY:
            words.append("*")
        last = p.kind
        words.append(_parameter(p, hints.get(p.name)))
    return f"({', '.join(words)}) -> {result}"


def _parameter(p: inspect.Parameter, hint: str | None) -> str:
    annotation = hint or p.annotation
    if not isinstance(annotation, str):
        annotation = _text(annotation)
    if p.default is p.empty or (p.name == "dtype" and hint != "None"):
        return f"{p.name}: {annotation}"
    optional = " | None" if p.default is None and not _takes_none(annotation) else ""
    return f"{p.name}: {annotation}{optional} = {p.default!r}"


def _takes_none(annotation: str) -> bool:
    return annotation in ("Any", "object") or annotation.split(" | ")[-1] == "None"


def _text(annotation: object) -> str:
    # The stubs import these names, so modules before them would not resolve.
    return re.sub(
        r"\b(typing|mdtensor\.\w+)\.", "", inspect.formatannotation(annotation)
    )


# Operators of tensors: calls of their operations, with `self` as one argument.

_OPERATOR_NUMBERS = {t.__name__ for t in SCALARS}
#: NumPy's arrays and numbers become tensors, of which a checker knows too little.
_OPERATOR_ARRAYS = "(self, other: np.ndarray[Any, Any] | np.generic, /) -> Any"


def methods(calls: Calls) -> dict[str, list[str]]:
    """Return the lines of each operator method by name."""
    tree = ast.parse(inspect.getsource(operators.Operators))
    found: dict[str, list[str]] = {}
    alike: dict[tuple[str, ...], str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return):
            called = node.body[-1].value
            if isinstance(called, ast.Call) and node.name.startswith("__"):
                signatures = _signatures(calls, called)
                # Methods that call no operation are alike in nothing.
                if not signatures:
                    continue
                # Equal methods share one text, which keeps the stub small and fast to
                # check.
                first = alike.setdefault(tuple(signatures), node.name)
                text = [line[4:] for line in function(node.name, signatures)]
                same = first != node.name
                found[node.name] = [f"{node.name} = {first}"] if same else text
    return found


def _signatures(calls: Calls, called: ast.Call) -> list[str]:
    way = ast.unparse(called.func)
    words = called.args if way in ("_binary", "_in_place") else [called.func]
    # The source names the operation; only the module knows the object.
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
    # Python calls a reflected method of a tensor only for other left operands.
    for overload in overloads:
        own, other = tensors(overload.places[1]), _numbers(overload.places[0])
        if own and other:
            yield _operator_signature((own, other), overload.result)
    yield _OPERATOR_ARRAYS


def _in_place(overloads: list[Overload]) -> Iterator[str]:
    # The result is written into the tensor, so it must have the tensor's type.
    for overload in overloads:
        if overload.result in overload.places[0].split(" | "):
            yield _operator_signature(
                (overload.result, overload.places[1]), overload.result
            )
    yield "(self, other: np.ndarray[Any, Any] | np.generic, /) -> Self"


def tensors(union: str) -> str:
    """Return the union without Python's numbers."""
    return " | ".join(
        word for word in union.split(" | ") if word not in _OPERATOR_NUMBERS
    )


def _numbers(union: str) -> str:
    return " | ".join(word for word in union.split(" | ") if word in _OPERATOR_NUMBERS)


# Operations as methods of tensors: calls with `self` as the first argument.


def attributes(calls: Calls) -> Iterator[str]:
    """Yield the lines of the methods that `bind` adds to tensors; share equal texts."""
    alike: dict[tuple[str, ...], str] = {}
    # Wrappers inherit the operators, but `bind` does not add methods to them.
    wrappers = {t.__name__ for t in calls.spelling.imported if is_wrapper(t)}
    for name, method in sorted(vars(Tensor).items()):
        if not is_operation(method):
            continue
        operation = method.operation
        overloads = calls.overloads(operation)
        found = [_of_self(operation, o, wrappers) for o in overloads]
        # Of a method the first argument is the tensor itself.
        arrays = list(of_arrays(operation))[1:] if any(found) else []
        found += [_of_array(operation, o) for o in arrays]
        texts = [_with_manners(name, text) for text in found if text]
        if name == "reshape":  # the shape, or its sizes one by one
            texts += [
                t.replace("shape: Integers, *, copy", "*shape: int, copy")
                for t in texts
            ]
        signatures = tuple(dict.fromkeys(texts))
        first = alike.setdefault(signatures, name)
        if first == name:
            yield from function(name, list(signatures))
        else:
            yield f"{INDENT}{name} = {first}"


def _of_array(operation: Operation, overload: Overload) -> str:
    text = signature(operation, overload)
    return text.replace(f"(self, {operation.dispatched[0]}: Any, ", "(self, ", 1)


def _with_manners(name: str, text: str) -> str:
    """Return a signature with the parameters that only the method has."""
    if name in vars(operators)["BY_AXIS"]:  # the axis may come by position
        text = re.sub(r"/, \*, (axis: [^=]+ = [^,)]+)", r"/, \1, *", text)
        return text.replace(", *) ->", ") ->")
    return (
        text.replace("axis: Axes)", "axis: Axes = ...)") if name == "squeeze" else text
    )


def _of_self(operation: Operation, overload: Overload, wrappers: set[str]) -> str:
    """Convert `(self, x1: A, x2: B, /) -> C` to `(self: A, x2: B, /) -> C`."""
    own = tensors(overload.places[0])
    own = " | ".join(word for word in own.split(" | ") if word not in wrappers)
    head = f"(self, {operation.dispatched[0]}: {overload.places[0]}"
    text = signature(operation, overload)
    if not own or not text.startswith(head):
        return ""
    return f"(self: {own}{text.removeprefix(head)}"
