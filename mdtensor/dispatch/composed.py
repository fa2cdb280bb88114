"""Functions that are other operations in a row: their errors name them.

An operation in the middle sees reshaped and cast values, so its own call would show
shapes and types that the caller never wrote.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from mdtensor.dispatch.call import named
from mdtensor.dispatch.call_errors import explain_wrong_calls
from mdtensor.errors import CallError, MdtensorError, describe

F = TypeVar("F", bound=Callable[..., Any])
#: The fix of its errors is one of its own options, which the function does not have.
_KEPT = "astype"


def composed(function: F) -> F:
    """Return `function` with errors that name it and what its caller passed.

    Calls that do not fit its parameters get our error, too.

    Example:
        >>> import mdtensor as md
        >>> md.logsumexp(md.zeros((2, 3)), axis=5)
        Traceback (most recent call last):
        mdtensor.errors.BoundsError: logsumexp(Float32Tensor[2,3]): axis 5 does not ...
    """
    name = function.__name__
    explained = explain_wrong_calls(function)

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return explained(*arguments, **options)
        except MdtensorError as error:
            if error.operation in (name, _KEPT):
                raise
            raise _within(error, name, arguments) from error.__cause__
        except MemoryError as error:
            named(name, error, *arguments)

    return cast(F, call)


def _within(
    error: MdtensorError, name: str, arguments: tuple[Any, ...]
) -> MdtensorError:
    """Return the error of an operation in the middle as one of the whole call."""
    found = error.within(describe(name, *arguments))
    if isinstance(found, CallError) and found.types:
        found.args = (*found.args[:3], tuple(map(type, arguments)), *found.args[4:])
    return found
