"""Compiled loops that call a user's function at each index or element.

The names are as in `reference/for_each.py`, the oracle. The text of a loop is
generated for the number and types of its operands, and compiled once for them: in one
version if all operands are contiguous, and in another one otherwise. A loop runs
without the GIL.

Two functions share a compiled loop if their code, their closures and the global
variables that they read are equal. So a lambda in a loop is compiled once, and a
function whose constants change is compiled again. Arrays in closures and global
variables are compile-time constants, as always in numba. A loop is cached on disk if
bytes describe all that its function reads (decision 0059).
"""

import operator
import os
import re
import threading
from itertools import chain
from pathlib import PurePath
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core import types as numba_types

from mdtensor.kernels.cpu.user import views
from mdtensor.kernels.cpu.user.cache import LoopCache
from mdtensor.kernels.cpu.user.counts import CheckedCompiler
from mdtensor.kernels.cpu.user.identity import identity, names_read
from mdtensor.kernels.cpu.user.views import (
    MARK,
    Contiguous,
    Element,
    Ranked,
    Row,
    Strided,
    View,
    loss,
)
from mdtensor.kernels.cpu.user.whole import with_checks
from mdtensor.kernels.numpy.layout import (
    FunctionError,
    Operand,
    address,
    in_order,
    is_contiguous,
    lines,
    merge_axes,
)

# numba computes uint64 with signed integers wrongly in two cases: quotients would be
# signed, and comparisons go through float64. Sums, products and bits are right, since
# they are the same modulo 2**64 whatever the sign.

_QUOTIENTS = {
    "//": (operator.floordiv, operator.ifloordiv),
    "%": (operator.mod, operator.imod),
}
_COMPARISONS = {
    "==": (operator.eq,),
    "!=": (operator.ne,),
    "<": (operator.lt,),
    "<=": (operator.le,),
    ">": (operator.gt,),
    ">=": (operator.ge,),
}
_SYMBOLS = {
    function: symbol
    for symbol, functions in (_QUOTIENTS | _COMPARISONS).items()
    for function in functions
}


def find_mixture(annotation):
    """Return (problem, line) if a typed function mixes uint64 with a signed integer.

    Return ("", 0) if it does not, or if numba computes the mixture correctly.

    Args:
        annotation: the types that numba inferred.
    """
    for expression in annotation.calltypes:
        if getattr(expression, "op", "") not in ("binop", "inplace_binop"):
            continue
        symbol = _SYMBOLS.get(expression.fn)
        if symbol is None:
            continue
        pair = [annotation.typemap[x.name] for x in (expression.lhs, expression.rhs)]
        is_exact = symbol in _COMPARISONS and any(map(_is_small, pair))
        if _is_mixed(pair) and not is_exact:
            problem = f"uint64 is combined with a signed integer by {symbol}"
            return problem, expression.loc.line
    return "", 0


def _is_mixed(pair):
    """Return whether two types are uint64 and a signed integer."""
    plain = [types.unliteral(kind) for kind in pair]
    is_integer = all(isinstance(kind, types.Integer) for kind in plain)
    return is_integer and types.uint64 in plain and any(kind.signed for kind in plain)


def _is_small(kind):
    """Return whether a type is a literal integer that float64 represents uniquely."""
    is_literal = isinstance(kind, types.IntegerLiteral)
    return is_literal and abs(kind.literal_value) < 2**53


# Above this number all loops are forgotten: a program that makes new functions all the
# time would otherwise fill the memory.
MOST_LOOPS = 1024
_LOOPS: dict[Any, Any] = {}
_LOCK = threading.Lock()


def _renew_lock():
    """Replace the lock after a fork.

    A thread of the parent may have held the old lock, and the child lacks that thread.
    """
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}
_compiled = numba.njit(**_OPTIONS)

_INDEXED = """
def loop(start, stop, {parameters}):
    {making}
    for i in range(np.intp(start), np.intp(stop)):
        function(i, {given})
"""
_ROW = """
def loop(start, stop, geometry, {parameters}):
    {making}
    for i in range(np.intp(start), np.intp(stop)):
        write(v0, i, function({given}))
"""
_ROWS = """
def loop(start, stop, geometry, {parameters}):
    size = geometry[0, -1]
    while start < stop:
        row = start // size
        first = start - row * size
        last = min(size, first + stop - start)
        {making}
        for i in range(np.intp(first), np.intp(last)):
            write(v0, i, function({given}))
        start += last - first
"""
_FORMS = {"indexed": _INDEXED, "row": _ROW, "rows": _ROWS}
_NO_GEOMETRY = np.empty((1, 1), np.int64)


def indexed(function, arguments):
    """Return work(start, stop) that calls function(i, *arguments) for each i.

    Operands become views. The work holds addresses: keep the arrays until it is done.
    """
    arrays = [x.array for x in arguments if isinstance(x, Operand)]
    dense = is_contiguous(*arrays)
    loop = _loop("indexed", function, arguments, dense)
    given = []
    for x in arguments:
        given += _flatten(x) if isinstance(x, Operand) else [x]
    return lambda start, stop: loop(start, stop, *given)


def elementwise(function, out, arguments):
    """Return work(start, stop) that sets out = function(*arguments), by elements.

    All operands have one shape. The work holds addresses: keep the arrays until it is
    done.
    """
    operands = [out, *(x for x in arguments if isinstance(x, Operand))]
    arrays = tuple(x.array for x in operands)
    geometry, dense = _NO_GEOMETRY, is_contiguous(*arrays)
    if not dense:
        # Axes are ordered as in the memory of `out`, so that operands which are
        # transposed alike are one row too (decision 0012).
        arrays = in_order(*arrays)
        geometry = merge_axes(*arrays)
        steps = geometry[1:, -1] == [x.itemsize for x in arrays]
        dense = geometry.shape[1] == 1 and bool(steps.all())
    loop = _loop("row" if dense else "rows", function, (out, *arguments), dense)
    places = iter([address(x) for x in arrays])
    given = [next(places) if isinstance(x, Operand) else x for x in (out, *arguments)]
    return lambda start, stop: loop(start, stop, geometry, *given)


def _view(x, dense):
    """Return the type of an argument of an indexed function."""
    if not isinstance(x, Operand):
        return numba.typeof(x)
    element = Element(x.name, x.writes)
    if x.ranked:
        return Ranked(element, x.array.ndim, dense)
    return Contiguous(element) if dense else Strided(element)


def _row(x, dense):
    """Return the type of an argument of a loop over rows."""
    if not isinstance(x, Operand):
        return numba.typeof(x)
    return Row(Element(x.name, x.writes), dense=dense)


def _flatten(x):
    """Return (address, size, geometry) of an operand, for `views.maker`."""
    geometry = lines(x.array) if x.ranked else merge_axes(x.array)
    return address(x.array), x.array.size, geometry


def _loop(form, function, arguments, dense):
    """Return the compiled loop, made at the first call for arguments of these types."""
    key = form, identity(function), dense, *map(_kind, arguments)
    # The first lookup needs no lock, so it does not wait while others compile.
    found = _LOOPS.get(key)
    if found is not None:
        return found
    with _LOCK:
        found = _LOOPS.get(key)
        if found is None:
            if len(_LOOPS) >= MOST_LOOPS:
                _LOOPS.clear()
            type_of = _view if form == "indexed" else _row
            kinds = tuple(type_of(x, dense) for x in arguments)
            described = form, dense, *map(_kind, arguments)
            found = _LOOPS[key] = _compile(form, function, kinds, described)
    return found


def _kind(x):
    """Return a key for the type of an argument."""
    if isinstance(x, Operand):
        return x.name, x.writes, x.array.ndim if x.ranked else -1
    return type(x)


def _compile(form, function, kinds, described):
    """Generate the text of a loop for these types, and return it compiled.

    Args:
        described: what the text is generated from, equal in all processes.
    """
    checked = with_checks(function, names_read(function.__code__))
    body = numba.njit(pipeline_class=CheckedCompiler, **_OPTIONS)(checked)
    found = _compiled(_loop_over(form, function, body, kinds))
    cache = LoopCache.of(function, described)
    signature = _signature(form, kinds)
    # Only what passed the checks is in the cache.
    if cache is None or not cache.holds(signature, found.targetctx.codegen()):
        _check_body(form, function, body, kinds)
    if cache is not None:
        found._cache = cache
    found.compile(signature)
    return found


def _signature(form, kinds):
    """Return the types of the arguments of a loop."""
    geometry = numba.typeof(_NO_GEOMETRY)
    place = (types.intp, types.intp, geometry) if form == "indexed" else (types.intp,)
    parts = [place if isinstance(kind, View) else (kind,) for kind in kinds]
    shared = () if form == "indexed" else (geometry,)
    return types.intp, types.intp, *shared, *chain(*parts)


def _loop_over(form, function, body, kinds):
    """Return the Python function of a loop that calls `body`."""
    number = iter(range(1, len(kinds) + 1))
    parts = [_part(form, at, kind, number) for at, kind in enumerate(kinds)]
    given = parts if form == "indexed" else parts[1:]
    text = _FORMS[form].format(
        parameters=", ".join(part.parameters for part in parts),
        making="; ".join(part.making for part in parts if part.making) or "pass",
        given=", ".join(part.given for part in given),
    )
    # Loaded code looks its module up by this name.
    namespace = {"__name__": __name__, "np": np, "function": body, "line": line}
    namespace |= {"read": views.read, "write": views.write}
    for at, kind in enumerate(kinds):
        if isinstance(kind, View):
            namespace[f"make{at}"] = views.maker(kind)
    exec(compile(text, f"<loop over {function.__name__}>", "exec"), namespace)
    return namespace["loop"]


class _Part(NamedTuple):
    """One argument in the text of a loop."""

    parameters: str
    making: str
    given: str


def _part(form, at, kind, number):
    """Return the `_Part` of argument `at`; `number` counts the operands."""
    if not isinstance(kind, View):
        return _Part(f"s{at}", "", f"s{at}")
    k = next(number)
    parameters, geometry, given = f"p{at}", "geometry", f"read(v{at}, i)"
    if form == "indexed":
        parameters, geometry, given = f"p{at}, n{at}, g{at}", f"g{at}", f"v{at}"
    place = f"p{at} + line(geometry, {k}, row)" if form == "rows" else f"p{at}"
    size = {"indexed": f"n{at}", "row": "0", "rows": f"geometry[{k}, -1]"}[form]
    return _Part(parameters, f"v{at} = make{at}({place}, {size}, {geometry})", given)


@_compiled
def line(geometry, k, row):
    """Return the bytes from the start of operand `k` to the start of a row."""
    found = 0
    for d in range(geometry.shape[1] - 2, -1, -1):
        above = row // geometry[0, d]
        found += (row - above * geometry[0, d]) * geometry[k, d]
        row = above
    return found


def _check_body(form, function, body, kinds):
    """Compile the function by itself, so that errors concern the user's code only.

    Raises:
        Refused: numba cannot compile the function, or its result does not fit `out`.
    """
    if form == "indexed":
        types_given = (numba_types.intp, *kinds)
    else:
        types_given = tuple(
            kind.element.compute if isinstance(kind, View) else kind
            for kind in kinds[1:]
        )
    try:
        body.compile(types_given)
    # numba raises many exceptions that are not subclasses of NumbaError.
    except Exception as error:
        raise _refusal(error, function) from None
    compiled = body.overloads[types_given]
    if any(isinstance(x, View) and x.element.name == "uint64" for x in kinds):
        problem, at = find_mixture(compiled.type_annotation)
        if problem:
            raise FunctionError(problem, at)
    if form != "indexed":
        result = compiled.signature.return_type
        problem = loss(kinds[0].element, numba_types.unliteral(result))
        if problem:
            raise FunctionError(problem, function.__code__.co_firstlineno)


def _refusal(error, function):
    """Return the error for a function: the reason in numba's error, and the line."""
    text = _COLOR.sub("", str(error))
    file = re.escape(PurePath(function.__code__.co_filename).name)
    place = re.search(rf'File "[^"]*{file}", line (\d+)', text)
    found = int(place.group(1)) if place else function.__code__.co_firstlineno
    return FunctionError(_reason(text) or type(error).__name__, found)


def _reason(text):
    """Return the sentence in numba's message that states the problem."""
    for pattern, shown in ((f"{MARK}(.+)", "{}"), (r">{3} (.+)", "there is no {}")):
        found = re.search(pattern, text)
        if found:
            return shown.format(found.group(1))
    lines = [found.strip() for found in text.splitlines()]
    # The first line only names the stage of the compiler that failed.
    rest = [found for found in lines if found and not found.startswith("Failed in")]
    return rest[0].rstrip(". :") if rest else ""
