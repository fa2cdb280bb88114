"""Results of shape rules, kept for calls of the same specs, numbers and settings.

add(Float32Tensor[16], 1.0) -> Float32Tensor[16]      inferred once, then looked up
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdtensor.dispatch.method import Selection
from mdtensor.dispatch.settings import settings
from mdtensor.spec.spec import TensorSpec

#: The most results for one method and types; then they are dropped.
MOST = 256
_EXACT = frozenset({int, bool, str, type(None)})


# A shape rule takes as long as the rest of a recorded call (decision 0092).
class Inferred:
    """The shape rule of a selection.

    Args: selection: the method and the types.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._known: dict[Any, Any] = {}

    def __call__(self, given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return what the rule returns for specs and other arguments."""
        key: list[Any] = [settings()]
        is_known = all(_add(x, key) for x in given)
        for name, value in options.items():
            key.append(name)
            is_known = _add(value, key) and is_known
        if not is_known:
            return self._selection.deduce(*given, **options)
        return self._look_up(
            tuple(key), lambda: self._selection.deduce(*given, **options)
        )

    def _look_up(self, key: Any, infer: Callable[[], Any]) -> Any:
        found = self._known.get(key)
        if found is None:
            found = infer()
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[key] = found
        return found


def _add(value: Any, key: list[Any]) -> bool:
    """Append what tells a value from others; return whether anything does."""
    kind = type(value)
    if kind is TensorSpec:
        key += value.type, value.shape
        # Equal grids may have other rounding rules, and equal sizes other names.
        return value.qparams is None and all(type(n) is int for n in value.shape)
    if kind in _EXACT:
        key += kind, value
    elif kind is float:
        key += kind, repr(value)
    elif kind is tuple and all(type(part) is int for part in value):
        key += kind, value
    else:
        return False
    return True
