"""What calls ask of `checked` before a block was opened: its logs, and who audits.

Most programs open none, so audits are imported by the first block. A package with
audits of its own names their module here.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import Any

#: The active logs of this context, each with its block. A steady call of a model reads
#: it itself, as `is_checked` does.
LOGS: ContextVar[tuple[tuple[Any, Any], ...]] = ContextVar("checks", default=())
#: Modules whose import registers audits.
_LATER: list[str] = []


def audits_later(module: str) -> None:
    """Import `module`, which registers audits, when a `checked` block is first asked.

    Args: module: its full name.
    """
    _LATER.append(module)


# Two threads may import at once: the import system lets one of them wait.
def import_audits() -> None:
    """Import the modules that register audits."""
    for module in tuple(_LATER):
        importlib.import_module(module)
        if module in _LATER:
            _LATER.remove(module)
