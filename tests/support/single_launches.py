"""Methods of rendered devices that launch each loop by itself, as they are written.

They are the oracle of joined launches: a method that replays its launches joins them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mdtensor.rendered.replays import Replayed


@contextmanager
def single_launches() -> Iterator[None]:
    """Let methods launch each of their loops in a block."""

    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        return self._run(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replayed, "__call__", call)
        yield
