"""What a terminal shows while models run; no more than a line is kept of it."""

import io
import sys

import pytest
from numba.core import event

# Its listener of numba calls the observers.
import mdtensor.kernels.cpu.jit  # noqa: F401
from mdtensor.cli.report import COMPILING, working


class Terminal(io.StringIO):
    """A stream that says it is one, or not."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: is_terminal  # type: ignore[method-assign]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_compiling_is_told_once_and_to_terminals_alone(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Terminal(is_terminal)
    monkeypatch.setattr(sys, "stderr", stream)
    with working():
        for _ in range(2):
            with event.trigger_event("numba:compile"):
                pass
    with event.trigger_event("numba:compile"):  # and no more afterwards
        pass
    assert stream.getvalue().count(COMPILING) == int(is_terminal)


def test_nothing_is_told_where_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = Terminal(True)
    monkeypatch.setattr(sys, "stderr", stream)
    with working():
        pass
    assert COMPILING not in stream.getvalue()
