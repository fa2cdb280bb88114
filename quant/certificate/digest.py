"""A case, and the hash of the results of many."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One computation that two ways must agree on.

    Args:
        kernel: what is tested; cases of one kernel are counted together.
        name: which case of it.
        computed: the result on this many threads, by this process's runway.
        expected: the result by the oracle.
        is_quick: it belongs to the part that compiles in seconds.
    """

    kernel: str
    name: str
    computed: Callable[[int], Array]
    expected: Callable[[], Array]
    is_quick: bool = False

    @property
    def title(self) -> str:
        """What it is called, and ordered by."""
        return f"{self.kernel}: {self.name}"


def digest(results: Iterable[tuple[str, Array]]) -> str:
    """SHA-256 of arrays with their titles, in the order given."""
    text = hashlib.sha256()
    for title, array in results:
        portable = array.astype(array.dtype.newbyteorder("<"))
        shape = "x".join(map(str, array.shape))
        text.update(f"{title} {array.dtype.name} {shape}\n".encode())
        text.update(np.ascontiguousarray(portable).tobytes())
    return text.hexdigest()
