"""Calls of methods that are functions of buffers: bound once, then only run.

A method with `direct=` can say, from types, shapes and options alone, which function of
buffers a call runs. `bound` is the `fast_path=` of such a method: it keeps the function
in a table, so that a later call with the same shapes and options neither infers nor
checks again. Errors that depend on elements come from the method itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.device import cpu
from mdtensor.dtypes import DType
from mdtensor.ops.operands import deduced, keep, spec
from mdtensor.promotion import current
from mdtensor.tensor import ON_RELOAD, Tensor

Bound = tuple[type[Tensor], Callable[..., Any]] | None
_TABLES: list[dict[Any, Bound]] = []
new = object.__new__


# Inference, checks and the reading of options took longer than the work of small calls
# (decision 0090).
def bound(operation: Any, direct: Callable[..., Any]) -> Callable[..., Any]:
    """Return the `fast_path=` of a method of `operation` with this `direct=`."""

    def choose(*kinds: type) -> Callable[..., Any] | None:
        *tensors, last = kinds
        ends = last in (DType, type(None)) and bool(tensors)
        if not all(map(_is_host, tensors if ends else kinds)):
            return None
        general = operation.select(*kinds).method.implementation
        table: dict[Any, Bound] = {}
        _TABLES.append(table)

        def bind(key: Any, *arguments: Any, **options: Any) -> Bound:
            """Return the type of the result and the function; None without one."""
            result = deduced(operation, *arguments, **options)
            # An option may name another device, where a method has more to do.
            is_here = result.type.device is cpu
            act = is_here and direct(result, *map(spec, arguments), **options)
            found = (result.type, act) if act else None
            keep(table, key, found)
            return found

        if last is DType:
            return _of_type(table, bind, general) if len(tensors) == 1 else None
        # An optional tensor that is not given.
        if last is type(None):
            return _without_last(table, bind, general)
        return (_of_one if len(kinds) == 1 else _of_several)(table, bind, general)

    # A trace asks for the function once, instead of looking it up at each call.
    choose.direct = direct  # type: ignore[attr-defined]
    return choose


def _is_host(kind: type) -> bool:
    return issubclass(kind, Tensor) and kind.device is cpu


def _of_one(table: Any, bind: Any, general: Any) -> Callable[..., Any]:
    """Return the function of calls with one tensor."""

    def run(x: Tensor, /, **options: Any) -> Any:
        buffer = x.buffer
        values = (*options.values(),)
        kinds = (*map(type, values),)
        # As `_key` and `_run`, written out: these calls are the most frequent.
        try:
            key = buffer.shape, current(), values, kinds
            if tuple in kinds:
                key = *key, *[(*map(type, v),) for v in values if type(v) is tuple]
            found = table[key]
        except TypeError:  # An option, such as a list, does not have a hash.
            return general(x, **options)
        except KeyError:
            found = bind(key, x, **options)
        if found is None:
            return general(x, **options)
        try:
            made = found[1](buffer)
        except (IndexError, ValueError):
            return general(x, **options)
        result = new(found[0])
        result.buffer = made
        return result

    return run


def _of_type(table: Any, bind: Any, general: Any) -> Callable[..., Any]:
    """Return the function of calls with one tensor and an element type."""

    def run(x: Tensor, dtype: DType, /, **options: Any) -> Any:
        buffer = x.buffer
        try:
            key = buffer.shape, dtype, current(), _key(options)
            found = table[key]
        except TypeError:
            return general(x, dtype, **options)
        except KeyError:
            found = bind(key, x, dtype, **options)
        if found is not None and (made := _run(found, buffer)) is not None:
            return made
        return general(x, dtype, **options)

    return run


def _of_several(table: Any, bind: Any, general: Any) -> Callable[..., Any]:
    """Return the function of calls with several tensors."""

    def run(*arguments: Tensor, **options: Any) -> Any:
        buffers = [x.buffer for x in arguments]
        try:
            key = *[x.shape for x in buffers], current(), _key(options)
            found = table[key]
        except TypeError:
            return general(*arguments, **options)
        except KeyError:
            found = bind(key, *arguments, **options)
        if found is not None and (made := _run(found, *buffers)) is not None:
            return made
        return general(*arguments, **options)

    return run


def _without_last(table: Any, bind: Any, general: Any) -> Callable[..., Any]:
    """Return the function of calls with tensors, and None for the last argument."""

    def bind_all(key: Any, *tensors: Tensor, **options: Any) -> Bound:
        found: Bound = bind(key, *tensors, None, **options)
        return found

    def run_general(*tensors: Tensor, **options: Any) -> Any:
        return general(*tensors, None, **options)

    run_tensors = _of_several(table, bind_all, run_general)

    def run(*arguments: Any, **options: Any) -> Any:
        return run_tensors(*arguments[:-1], **options)

    return run


def _key(options: dict[str, Any]) -> Any:
    """Return values and types of options, because 1, 1.0 and True are equal as keys."""
    values = (*options.values(),)
    kinds = (*map(type, values),)
    if tuple in kinds:
        return values, kinds, *[(*map(type, v),) for v in values if type(v) is tuple]
    return values, kinds


def _run(found: tuple[type[Tensor], Callable[..., Any]], *buffers: Any) -> Any:
    """Return the result; None where the method must say what is wrong."""
    try:
        made = found[1](*buffers)
    except (IndexError, ValueError):
        return None
    result = new(found[0])
    result.buffer = made
    return result


def _forget() -> None:
    for table in _TABLES:
        table.clear()


ON_RELOAD.append(_forget)
