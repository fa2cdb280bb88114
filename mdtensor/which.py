"""`which`: the answer to what a call runs, for types, values or specs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mdtensor.dispatch.method import Selection
from mdtensor.errors import OptionError, shown
from mdtensor.spec.spec import TensorSpec


def which(operation: Any, /, *arguments: Any, **options: Any) -> Selection:
    """Return what a call runs: the method, the function, and the way to its kernel.

    The choice looks at types alone. `kernel`, `isa`, `promotion`, `casts`, `result` and
    `is_refusal` are observed when you ask for them, or print the answer: the call is
    run once, on copies of the values that you gave, on ones for a spec, and on small
    tensors for a type. Give values or specs where the kernel depends on shapes, grids
    or `out=`.

    Args:
        operation: what `generic` declared.
        arguments: types, values or specs, in any mix. You may leave out those at the
            end that have defaults.
        options: as the call takes them.

    Raises:
        OptionError: `operation` is not an operation, or does not have the option.
        DispatchError: no method fits, or two fit equally well.

    Example:
        >>> import mdtensor as md
        >>> found = md.which(md.add, md.Float32Tensor, md.Int8Tensor)
        >>> print(found)  # doctest: +ELLIPSIS
        add(Float32Tensor, Int8Tensor) -> add(...)  mdtensor/ops/arithmetic.py:...
          promotes: to float32
          casts: int8 to float32
          kernel: numpy.add, NumPy..., on cpu
        >>> found.is_refusal
        False

    Source: Julia, `@which`.
    """
    if not hasattr(operation, "operation"):
        raise OptionError(f"{shown(operation)} is no operation", "See md.operations()")
    declared = operation.operation
    unknown = [name for name in options if name not in declared.options]
    if unknown:
        known = ", ".join(declared.options) or "none"
        problem = f"{declared.name} does not take the option {unknown[0]}"
        raise OptionError(problem, f"Its options: {known}")
    if declared.sequence and len(arguments) == 1 and _is_list(arguments[0]):
        arguments = tuple(arguments[0])
    found: Selection = operation.select(*map(_type, arguments))
    return replace(found, arguments=arguments, options=options)


def _is_list(argument: Any) -> bool:
    return isinstance(argument, (list, tuple))


def _type(argument: Any) -> type:
    """Return the type by which an argument is dispatched."""
    if isinstance(argument, TensorSpec):
        argument = argument.type
    return argument if isinstance(argument, type) else type(argument)


def why(selection: Selection) -> str:
    """Return `selection.reason`: what else fits the types, and is less specific.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QInt8Tensor
        >>> why(which(md.neg, md.Int8Tensor))
        'the only method that fits'
        >>> why(which(md.mul, QInt8Tensor, QInt8Tensor))[:19]
        'more specific than '

    Source: Julia, "Methods"; plum, "Method Precedence".
    """
    return selection.reason
