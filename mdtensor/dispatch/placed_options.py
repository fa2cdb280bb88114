"""The error of an option that came by position, `softmax(x, -1)`, as PyTorch takes it.

The error shows the call with its options by name. Each argument takes the first free
parameter that accepts it, in the order of the declaration, so `layer_norm(x, (3,), w)`
is `layer_norm(x, w, normalized_shape=(3,))`. If another library has another order, only
the options at the same place are certain (`POSITIONS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter
from typing import Any

from mdtensor.dispatch.declaration import REQUIRED, Attribute
from mdtensor.dispatch.suggestions import POSITIONS
from mdtensor.dtypes import DType
from mdtensor.errors import DispatchError, shown

_SHORT = (bool, int, float, complex, str, tuple, DType, type(None))


def option_error(
    name: str,
    parameters: Iterable[Parameter],
    types: Mapping[str, Any],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    sequence: bool = False,
) -> DispatchError | None:
    """Return the error of a call with options by position.

    Args:
        name: the function.
        parameters: the parameters of its signature that the error may name.
        types: annotations by parameter.
        arguments: by position.
        options: by name; defaults count as absent.
        sequence: the first parameter is a list of tensors.

    Returns:
        None if no option came by position, or if it is not certain which.
    """
    known = {p.name: p for p in parameters}
    given = {
        n: x for n, x in options.items() if n in known and x is not known[n].default
    }
    free = [p for p in known.values() if p.name not in given]
    found = _parameters_of(name, free, types, arguments)
    places = [n for n, p in known.items() if p.kind is not p.KEYWORD_ONLY]
    placed = [n for n in places if n in found]
    named = [n for n in found if n not in places]
    # A gap among the places cannot be written.
    if not named or placed != places[: len(placed)]:
        return None
    texts = [_in_code(n, found[n]) for n in placed]
    if sequence:
        texts[0] = "[x1, x2]"
    by_name = {n: found[n] for n in named} | given
    texts += [f"{n}={_in_code(n, x)}" for n, x in by_name.items()]
    problem = f"{', '.join(named)} came by position, but must be given by name"
    return DispatchError(problem, f"Write {name}({', '.join(texts)})")


def _parameters_of(
    name: str,
    parameters: list[Parameter],
    types: Mapping[str, Any],
    arguments: tuple[Any, ...],
) -> dict[str, Any]:
    """Return the arguments by parameter; empty if one of them does not have any."""
    free = {p.name: p for p in parameters if p.kind is not p.KEYWORD_ONLY}
    named = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
    is_ours = name not in POSITIONS
    order = list(named) if is_ours else list(POSITIONS[name])
    found: dict[str, Any] = {}
    for value in arguments:
        fits = [n for n, p in free.items() if _accepts(p, types, value)]
        if not fits:
            rest = [n for n in order if n in named and _accepts(named[n], types, value)]
            # Where the order of others differs, no option can be skipped.
            if not rest or not (is_ours or rest[0] == order[0]):
                return {}
            order = order[order.index(rest[0]) + 1 :]
        taken = (fits or rest)[0]
        free.pop(taken, None)
        found[taken] = value
    return found


def _accepts(parameter: Parameter, types: Mapping[str, Any], value: object) -> bool:
    """Return whether the caller may mean `parameter` by `value`."""
    is_named = parameter.kind is parameter.KEYWORD_ONLY
    if value is parameter.default or (parameter.default is REQUIRED and not is_named):
        return True
    hint = types.get(parameter.name, Any)
    # A declaration writes `object` for tensors and grids.
    if hint is object:
        return hasattr(value, "shape") or hasattr(value, "rounded")
    # A tensor is a collection, but one by position is an operand too many.
    if hint is not Any and hasattr(value, "wrap"):
        return False
    return Attribute(parameter.name, hint, parameter.default, "").accepts(value)


def _in_code(name: str, value: object) -> str:
    """Return Python code for an argument: the name of its parameter, or its value."""
    text = shown(value)
    # The code of other values would not run, or show elements of a tensor.
    return text if isinstance(value, _SHORT) and "..." not in text else name
