"""The catalog of operations: look-up by name, lists, and checks of completeness.

You can write a short name (`add`), a prefix (`tensor.add`, `tile.add`), a category
(`arithmetic.add`), or a module (`my.package.module.add`).
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, overload

from mdtensor.dispatch.builder import pending_registrations, without_prefix
from mdtensor.dispatch.operation import Generic, no_rule, operations
from mdtensor.dispatch.suggestions import hint
from mdtensor.errors import OptionError, RegistrationError, shown

__all__ = ["get_op", "is_op_registered", "ops", "signatures", "validate"]


def get_op(name: str | Generic) -> Generic:
    """Return the operation with this name.

    Args:
        name: see `mdtensor.dispatch.catalog`; an operation is returned as it is.

    Raises:
        OptionError: no operation has the name, or more than one.
        RegistrationError: the declaration lacks its description or its shape rule. The
            error lists everything that is missing.

    Example:
        >>> import mdtensor as md
        >>> md.get_op("tensor.add") is md.get_op("arithmetic.add") is md.add
        True
        >>> [str(argument) for argument in md.get_op("sort").operation.attributes]
        ['axis: int = -1', 'descending: bool = False', 'stable: bool = True']

    Source: PyPTO, `get_op`.
    """
    # `operation.function` is the final function also for a pending registration.
    if hasattr(name, "operation"):
        return name.operation.function  # type: ignore[no-any-return]
    found = _find_all(name)
    if len(found) != 1:
        raise _not_one(name, found)
    (qualified,) = found
    call = found[qualified]
    if problems := list(_steps(call.operation)):
        raise RegistrationError(
            f"the declaration lacks {', '.join(problems)}", _FIX, f"get_op({name})"
        )
    return call


def is_op_registered(name: str | Generic) -> bool:
    """Return whether `get_op` finds `name`, or whether an operation is registered.

    Example:
        >>> import mdtensor as md
        >>> md.is_op_registered("tensor.add"), md.is_op_registered("tensor.odd")
        (True, False)
        >>> md.is_op_registered(md.add)
        True

    Source: PyPTO, `is_op_registered`.
    """
    try:
        found = get_op(name)
    except (OptionError, RegistrationError):
        return False
    return any(call is found for call in operations().values())


#: Categories of version 0.1, and the ones that their operations have now.
RENAMED = {
    "exponential": "math",
    "floating": "math",
    "logic": "comparison",
    "parts": "arithmetic",
    "rounding": "arithmetic",
    "scan": "reduction",
    "searching": "sorting",
    "sets": "sorting",
    "shares": "activation",
    "special": "math",
    "trigonometry": "math",
}


def ops(category: str | None = None) -> tuple[str, ...]:
    """Return the sorted names of all operations, or of the operations in a category.

    Raises:
        OptionError: there is no such category.

    Example:
        >>> import mdtensor as md
        >>> md.ops("attention")
        ('embedding', 'one_hot', 'scaled_dot_product_attention')
    """
    known = [call.operation for call in _all().values()]
    if category is None:
        return tuple(sorted({operation.name for operation in known}))
    listed = sorted({operation.category for operation in known})
    if isinstance(category, str) and category in RENAMED.keys() - {*listed}:
        warnings.warn(
            f"the category {category!r} is now {RENAMED[category]!r}",
            DeprecationWarning,
            stacklevel=2,
        )
        category = RENAMED[category]
    if not isinstance(category, str) or category not in listed:
        problem = f"category is {shown(category)}"
        raise OptionError(problem, f"Use one of {', '.join(listed)}")
    return tuple(sorted({op.name for op in known if op.category == category}))


@overload
def signatures(operation: str | Generic) -> tuple[str, ...]: ...
@overload
def signatures() -> dict[str, tuple[str, ...]]: ...
def signatures(operation: Any = None) -> Any:
    """Return the signatures of an operation's methods, or by name of all operations.

    Args:
        operation: an operation or its name; None for all operations.

    Example:
        >>> import mdtensor as md
        >>> md.signatures("interpolate")
        ('interpolate(FloatingTensor)',)
    """
    if operation is None:
        return {name: signatures(call) for name, call in sorted(_all().items())}
    call = operation if hasattr(operation, "operation") else get_op(operation)
    return tuple(str(method) for method in call.operation.methods)


def validate() -> None:
    """Check that all declarations are complete.

    Raises:
        RegistrationError: a declaration lacks its description, its shape rule or the
            documentation of a parameter, or a registration lacks steps. The error
            names all of them.

    Source: PyPTO, `OpRegistry::ValidateTileOps`.
    """
    offenders = [
        f"{name} ({', '.join(problems)})"
        for name, call in sorted(_all().items())
        if (problems := list(_problems(call.operation)))
    ]
    offenders += [
        f"{pending.module}.{pending.name} ({', '.join(pending.problems)})"
        for pending in pending_registrations()
    ]
    # All problems at once, so that one run of the check is enough.
    if offenders:
        raise RegistrationError(
            f"{len(offenders)} declarations are not complete: {'; '.join(offenders)}",
            _FIX,
        )


_FIX = "Add these to the declaration, or as steps to the chain"


def check_declarations(calls: dict[str, Generic]) -> None:
    """Check declarations as `validate` does, but without reading docstrings."""
    # It runs at each import, where parsing hundreds of docstrings would take too long.
    has_docstrings = sys.flags.optimize < 2
    offenders = [
        name
        for name, call in calls.items()
        if call.operation.rule is no_rule or (has_docstrings and not call.__doc__)
    ]
    if offenders:
        raise RegistrationError(
            f"declarations without description or shape rule: {', '.join(offenders)}",
            _FIX,
        )


def _steps(operation: Any) -> Iterator[str]:
    """Yield the missing parts of a declaration, except parameter documentation."""
    if not operation.description:
        yield "describe"
    if operation.rule is no_rule:
        yield "deduce"


def _problems(operation: Any) -> Iterator[str]:
    """Yield the missing parts of a declaration."""
    yield from _steps(operation)
    for parameter in (*operation.arguments, *operation.attributes):
        if not parameter.doc:
            yield f"doc of {parameter.name}"


def _all() -> dict[str, Generic]:
    """Return all operations by qualified name; declare complete registrations first."""
    for pending in pending_registrations():
        if not pending.problems:
            assert pending.function
    return operations()


def _find_all(name: str) -> dict[str, Generic]:
    """Return the operations that match a name, by qualified name."""
    if not isinstance(name, str) or not without_prefix(name):
        raise OptionError(f"{shown(name)} is not an operation name", "See md.ops()")
    known = _all()
    if name in known:
        return {name: known[name]}
    bare = without_prefix(name)
    family, _, short = bare.rpartition(".")
    found = {
        qualified: call
        for qualified, call in known.items()
        if call.operation.name == short
        and (not family or call.operation.category in (family, RENAMED.get(family)))
    }
    # Importing another package must not make our own names ambiguous.
    ours = {q: call for q, call in found.items() if q.startswith("mdtensor.generics.")}
    return ours or found


def _not_one(name: str, found: dict[str, Generic]) -> OptionError | RegistrationError:
    """Return the error of a name that matches no operation, or several."""
    bare = without_prefix(name)
    for pending in pending_registrations():
        if pending.name == bare:
            steps = f"{', '.join(pending.missing)} missing" if pending.missing else ""
            problem = steps or ", ".join(pending.problems)
            return RegistrationError(problem, _FIX if steps else "", f"get_op({name})")
    if found:
        return OptionError(
            f"{name} is the name of {len(found)} operations",
            f"Use one of {', '.join(found)}",
            f"get_op({name})",
        )
    known = {call.operation.name for call in operations().values()}
    near = hint(bare.rpartition(".")[2], known)
    return OptionError(
        f"there is no operation {bare}", near.strip().rstrip("."), f"get_op({name})"
    )
