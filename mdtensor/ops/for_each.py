"""`for_each`: a compiled Python function over a range of indices, on all threads.

This module also translates numba's compile errors into ours.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from inspect import CO_VARARGS, iscoroutinefunction, isgeneratorfunction
from numbers import Integral
from pathlib import PurePath
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.errors import (
    BoundsError,
    CastError,
    CompileError,
    DataError,
    DispatchError,
    OptionError,
    ShapeError,
    checked,
    describe,
    shown,
    type_and_shape,
)
from mdtensor.kernels.numpy import threads
from mdtensor.kernels.numpy.layout import FunctionError
from mdtensor.kernels.numpy.threads import MOST_THREADS, POOL
from mdtensor.ops.views import View
from mdtensor.spec.options import choice
from mdtensor.spec.shapes import is_size
from mdtensor.tensor import Tensor, announce_write

# Compile errors, in the words of this library.

#: Patterns of numba's reasons, each with our problem and fix.
WORDS = (
    (
        r"Untyped global name '(\w+)': .* <class 'function'>",
        "{0} is a function that is not compiled",
        "Decorate {0} with numba.njit",
    ),
    (
        r"Untyped global name '(\w+)': .* <class '(?:\w+\.)*(\w+)'>",
        "{0} is {1}, which compiled functions do not take",
        "Give it as an argument: numbers, and views of tensors",
    ),
    (
        r"Unknown attribute '(\w+)' of type Module\(<module '([\w.]+)'.*",
        "{1}.{0} is not a function of numbers that can be compiled",
        "Use arithmetic, math, or NumPy's functions of numbers",
    ),
    (r"Unknown attribute '(\w+)' of type (\w+)", "{1} has no attribute '{0}'", ""),
    (
        r"OptionalType\(.*\) is written to elements of .*",
        "one path returns nothing, another one a number",
        "Let every path return a number",
    ),
    (
        r"Cannot unify (\S+) and (\S+) for '(\w+)[.\d]*'.*",
        "{2} is {0} in one place and {1} in another",
        "Use one name for each",
    ),
    (r"(.* is not supported)[. ]*Raised from None", "{0}", ""),
    (
        r"(the function writes to a read-only view.*)",
        "{0}",
        "Use flat_out(x) or ranked_out(x)",
    ),
    (r"(nothing is written.*)", "{0}", "Let every path return a number"),
    (r"(NameError.*)", "{0}", "Define it before the call"),
    (r"(uint64 is combined.*)", "{0}", "Write np.uint64(n) for the signed integer"),
    (
        r"(.* to elements of u?int\d+)",
        "{0}",
        "Use astype(x, float32), or elementwise(dtype=float32)",
    ),
)
#: Patterns of numba's names of types, each with Python's name.
_TYPES = ((r"Literal\[(\w+)\]\([^)]*\)", r"\1"), (r"\bunicode_type\b", "str"))


def explain(reason: str) -> tuple[str, str]:
    """Return problem and fix for a reason of numba's; the fix is empty if unknown.

    Example:
        >>> explain("Untyped global name 'f': Cannot determine Numba type of "
        ...           "<class 'function'>")
        ('f is a function that is not compiled', 'Decorate f with numba.njit')
    """
    for theirs, ours in _TYPES:
        reason = re.sub(theirs, ours, reason)
    for pattern, problem, fix in WORDS:
        found = re.fullmatch(pattern, reason)
        if found:
            parts = found.groups()
            return problem.format(*parts), fix.format(*parts)
    return reason, ""


# Indices are checked in the loop, since LLVM vectorizes it anyway and a wrong index
# must not crash (decision 0012).
def for_each(
    count: int,
    function: Callable[..., Any],
    /,
    *arguments: Any,
    scheduling: object = "uniform",
    grain: int = 1024,
) -> None:
    """Call function(i, *arguments) once for each i in range(count), in any order.

    The function is compiled by numba at the first call with arguments of these types,
    and runs on all threads without the GIL. Floats of 16 bits or less are
    float32 in it, Python's numbers are float64 and int64; a value is rounded once when
    it is written.

    Args:
        count: the number of indices; 0 does nothing.
        function: takes an index and the arguments, and returns nothing. It may use
            everything that numba compiles: arithmetic, `math`, loops, tuples, arrays.
        arguments: views, see `flat_in`, `flat_out`, `ranked_in`, `ranked_out`; Python
            numbers.
        scheduling: `uniform`, one piece for each thread; `adaptive`, many pieces, for
            indices whose times differ. You may also pass the coordinates `Uniform`
            and `Adaptive` of `tables`.
        grain: the fewest indices for one thread; use 1 if each index takes long.

    Raises:
        CompileError: numba cannot compile the function, or it combines uint64 with a
            signed integer by //, % or a comparison; the error names the line.
        BoundsError: the function reads or writes outside of a view.
        ShapeError: count is not an integer of 0 or more.
        OptionError: `function` is not a function or does not take the arguments, or
            an option is unknown.
        DispatchError: an argument is neither a view nor a number.
        CastError: an integer has more than 64 bits.
        Exception: any exception of the function itself. Division by zero does not
            raise: quotient and remainder are 0 for integers, inf or nan for floats.

    Example:
        >>> import mdtensor as md
        >>> def scaled(i, x, y, factor):
        ...     y[i] = factor * x[i]
        >>> x, y = md.asarray([[1.0, 2.0], [3.0, 4.0]]), md.zeros((2, 2))
        >>> md.for_each(x.size, scaled, md.flat_in(x.T), md.flat_out(y), 0.5)
        >>> y.tolist()
        [[0.5, 1.5], [1.0, 2.0]]

    Source: fVDB, `for_each`.
    """
    checked(
        "for_each",
        (count, function, *arguments),
        lambda: _run(count, function, arguments, scheduling, grain),
    )


def _run(
    count: int,
    function: object,
    arguments: tuple[Any, ...],
    scheduling: Any,
    grain: int,
) -> None:
    if not _is_count(count):
        raise ShapeError(f"count is {shown(count)}", "Give an integer of 0 or more")
    # The coordinate `Uniform` of a table stands for the name "uniform".
    if isinstance(scheduling, type):
        scheduling = scheduling.__name__.lower()
    choice(scheduling, "scheduling", tuple(threads.PIECES))
    if not _is_count(grain) or not grain:
        raise OptionError(f"grain is {shown(grain)}", "Use an integer of 1 or more")
    plain = plain_function(function)
    found = _add_defaults(plain, [_argument(x) for x in arguments])
    if count:
        with translate_errors(plain):
            work = kernel().indexed(plain, found)
            threads.run(work, int(count), scheduling, int(grain))


def _is_count(value: Any) -> bool:
    # True is an Integral, but as a count it is a mistake.
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    return is_integer and 0 <= value < 2**63


@cache
def kernel() -> ModuleType:
    """Return the module of compiled loops, or the oracle if compilation is off."""
    # Imported on use, because numba takes long to import.
    from mdtensor.kernels.cpu import isa

    if isa.IS_JIT_DISABLED:
        from mdtensor.kernels.reference import for_each as oracle

        return oracle
    from mdtensor.kernels.cpu.user import for_each as compiled

    return compiled


def plain_function(
    function: object, fix: str = "Define one with def or lambda"
) -> FunctionType:
    """Return the Python function behind `function`, which numba may have compiled.

    Raises:
        OptionError: `function` is not a Python function; the error suggests `fix`.
    """
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, FunctionType):
        raise OptionError(f"{type(function).__name__} is not a Python function", fix)
    # Numba compiles generators, but nobody would advance them.
    if isgeneratorfunction(plain) or iscoroutinefunction(plain):
        raise OptionError(f"{plain.__name__} is a generator or coroutine", fix)
    return plain


def _argument(x: object) -> Any:
    if isinstance(x, View):
        if x.operand.writes:
            announce_write(x.tensor.buffer)
        return x.operand
    if isinstance(x, Tensor):
        fix = "Use flat_in(x) to read it, flat_out(x) to write"
        problem = "but compiled functions take a view or a number"
        raise DispatchError(f"the argument is {type_and_shape(x)}, {problem}", fix)
    return number(x)


def number(x: object) -> Any:
    """Return `x` as a Python number that compiled functions take.

    Raises:
        DispatchError: the value is not a number.
        CastError: the integer has more than 64 bits.
    """
    if type(x) is float:
        return x
    x = x.item() if isinstance(x, np.generic) else x
    # bool comes first, because True is also an int.
    kinds: tuple[type, ...] = (bool, int, float, complex)
    if not isinstance(x, kinds):
        fix = "Give views and Python numbers"
        raise DispatchError(f"{type(x).__name__} is neither a view nor a number", fix)
    if isinstance(x, int) and not -(2**63) <= x < 2**63:
        raise CastError("an integer has more than 64 bits", "Give a float")
    return next(kind(x) for kind in kinds if isinstance(x, kind))


def _add_defaults(function: FunctionType, given: list[Any]) -> list[Any]:
    """Return the arguments after the index, with defaults for the missing ones."""
    code, defaults = function.__code__, function.__defaults__ or ()
    takes, names = code.co_argcount - 1, code.co_varnames[1 : code.co_argcount]
    missing = takes - len(given)
    takes_more = bool(code.co_flags & CO_VARARGS)
    if code.co_kwonlyargcount:
        fix = "Make all its parameters positional"
        raise OptionError(f"{function.__name__} has keyword-only parameters", fix)
    if missing > len(defaults) or (missing < 0 and not takes_more):
        listed = ", ".join(("i", *names))
        fix = (
            f"It takes {listed}" if takes >= 0 else "Give it a parameter for the index"
        )
        problem = f"{function.__name__} gets an index and {len(given)} arguments"
        raise OptionError(problem, fix)
    # Compiled loops pass all arguments by position, so defaults are filled in here.
    return [*given, *(defaults[len(defaults) - missing :] if missing > 0 else ())]


#: What a function did wrong, by the text that its kernel or Python raises.
COUNTS = {
    "negative shift count": "shifts an integer by a negative count",
    "negative power": "raises an integer to a negative power",
}
FIX = "Test for it in the function, or compute with floats"


@contextmanager
def translate_errors(function: FunctionType) -> Iterator[None]:
    """Turn the errors of kernels into ours; let a function's own exceptions pass.

    Raises:
        CompileError: the function cannot be compiled.
        BoundsError: an index was outside of a view.
        CastError: the function converts a float to an integer that int64 does not hold.
        DataError: the function shifts an integer by a negative count, or raises one to
            a negative power.
    """
    try:
        yield
    except (OverflowError, ValueError) as error:
        # Python itself refuses infinities and NaN, if the function is not compiled.
        reason = str(error)
        if reason in COUNTS:
            raise DataError(f"{_place(function)} {COUNTS[reason]}", FIX) from None
        if reason != "outside" and not reason.startswith("cannot convert float"):
            raise
        problem = "makes an integer of a float that int64 does not hold"
        fix = "Use np.floor, np.ceil, np.trunc or np.rint, which return floats"
        raise CastError(f"{_place(function)} {problem}", fix) from None
    except FunctionError as error:
        reason, fix = explain(error.reason)
        problem = f"{_place(function, error.line)} cannot be compiled: {reason}"
        raise CompileError(problem, fix) from None
    except IndexError as error:
        # Any other IndexError comes from the function itself.
        if error.args != ("outside",):
            raise
        fix = "Indices of a view are from 0 to its size - 1"
        raise BoundsError(f"{_place(function)} indexes outside a view", fix) from None


def _place(function: FunctionType, line: int = 0) -> str:
    code = function.__code__
    file = PurePath(code.co_filename).name
    return f"{function.__name__} at {file}:{line or code.co_firstlineno}"


# The number of threads for large arrays.


@explain_wrong_calls
def set_num_threads(n: int) -> None:
    """Set the largest number of threads of elementwise operations on large arrays.

    The default is MDTENSOR_NUM_THREADS, else the cores that the process may use.
    Results are the same bytes for any number of threads.

    Raises:
        OptionError: n is not an integer from 1 to 64.

    Example:
        >>> import mdtensor as md
        >>> before = md.get_num_threads()
        >>> md.set_num_threads(1)
        >>> md.get_num_threads()
        1
        >>> md.set_num_threads(before)
    """
    if not is_size(n) or not 1 <= n <= MOST_THREADS:
        raise OptionError(
            f"{shown(n)} is not a number of threads",
            f"Use an integer from 1 to {MOST_THREADS}",
            describe("set_num_threads", n),
        )
    POOL.size = int(n)


@explain_wrong_calls
def get_num_threads() -> int:
    """Return the largest number of threads of elementwise operations."""
    return POOL.size
