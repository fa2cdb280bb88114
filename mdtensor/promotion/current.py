"""The rule set in force, and how to choose another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType

from mdtensor.errors import OptionError, shown
from mdtensor.promotion.lattice import ARRAY_API, DEFAULT, STRICT
from mdtensor.promotion.ruleset import RuleSet
from mdtensor.promotion.tables import JAX, NUMPY, TORCH
from mdtensor.promotion.widths import PYPTO

_ALL = (DEFAULT, STRICT, ARRAY_API, NUMPY, JAX, TORCH, PYPTO)
#: Every rule set by its name.
RULE_SETS = MappingProxyType({rules.name: rules for rules in _ALL})

_CURRENT: ContextVar[RuleSet] = ContextVar("mdtensor.promotion", default=DEFAULT)
#: The rule set in force; what it decides can be kept by its identity. Called on every
#: mixed operation, so it is the variable's own method.
current: Callable[[], RuleSet] = _CURRENT.get


def promotion_rules(name: str) -> AbstractContextManager[RuleSet]:
    """Promote by the named rules inside a `with` block.

    The choice holds for this thread, or asynchronous task, and for what it awaits; a
    new thread starts with the default. Comparisons promote nothing, so they are the
    same under all rules, as are the types of new tensors.

    Args:
        name: `default`, `strict` (nothing is promoted), `array_api` (what the
            standard defines, nothing else), `numpy`, `jax`, `torch` or `pypto` (each
            as its owner promotes).

    Raises:
        OptionError: there are no such rules.

    Example:
        >>> import mdtensor as md
        >>> x, y = md.asarray([1, 2], dtype=md.int32), md.asarray([0.5])
        >>> x + y
        Float32Tensor[2]([1.5, 2.5])
        >>> with md.promotion_rules("numpy"):
        ...     x + y
        Float64Tensor[2]([1.5, 2.5])
        >>> with md.promotion_rules("strict"):
        ...     x + y
        Traceback (most recent call last):
        mdtensor.errors.PromotionError: add(Int32Tensor[2], Float32Tensor[1]) ...
    """
    found = RULE_SETS.get(name) if isinstance(name, str) else None
    if found is None:
        known = ", ".join(RULE_SETS)
        raise OptionError(f"no promotion rules {shown(name)}", f"Known are {known}")
    return _in_force(found)


@contextmanager
def _in_force(rules: RuleSet) -> Iterator[RuleSet]:
    token = _CURRENT.set(rules)
    try:
        yield rules
    finally:
        _CURRENT.reset(token)
