"""What `numpy.linalg` gives up on, in our words."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from mdtensor.errors import LinAlgError, describe


@contextmanager
def failing(problem: str, fix: str, operation: Any, *arguments: Any) -> Iterator[None]:
    """Say `problem` and `fix` where LAPACK reports that it failed.

    Raises:
        LinAlgError: it did.
    """
    try:
        yield
    except np.linalg.LinAlgError:
        call = describe(operation.__name__, *arguments)
        raise LinAlgError(problem, fix, call) from None


def not_converging(operation: Any, *arguments: Any) -> AbstractContextManager[None]:
    """As `failing`, for iterations: they end unless an element is not finite."""
    problem, fix = "the iteration does not converge", "Replace NaN and infinities first"
    return failing(problem, fix, operation, *arguments)
