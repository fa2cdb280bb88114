"""What a call runs: the methods of an operation, and the choice of one of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import plum

from mdtensor import mismatch
from mdtensor.annotations import check_annotations, check_types, is_of_annotations
from mdtensor.call import TARGET
from mdtensor.declaration import type_name
from mdtensor.errors import RegistrationError
from mdtensor.fitting import check_callable, check_rule
from mdtensor.parameters import Parameters

Implementation = Callable[..., Any]


@dataclass(frozen=True, repr=False)
class Method:
    """One implementation of an operation.

    Args:
        implementation: the function itself.
        signature: the types it is for, as plum orders them.
        deduce: types and shapes of the result, if other than the declaration's.
        prepare: does the work that depends on constant arguments only, once.
        specialize: a shorter way for arguments of just these types, or None.
        name: of the operation, whatever the function is called.
        anywhere: it runs on every device, and not only on those whose tensors it names.
    """

    implementation: Implementation
    signature: plum.Signature
    deduce: Callable[..., Any] | None
    prepare: Callable[..., Any] | None
    specialize: Callable[..., Implementation | None] | None = None
    name: str = ""
    anywhere: bool = False

    @functools.cached_property
    def rounds(self) -> bool:
        """Whether it takes `out=`, the grid to round its result to."""
        return "out" in Parameters.of(self.implementation).named

    @functools.cached_property
    def classes(self) -> tuple[type, ...] | None:
        """The types of its signature, if each is a class."""
        types: tuple[Any, ...] = self.signature.types
        is_plain = all(isinstance(t, type) for t in types)
        return types if is_plain and not self.signature.has_varargs else None

    def is_like(self, other: Method) -> bool:
        """Whether both have the same signature; quickly, where all are classes."""
        if self.classes is not None and other.classes is not None:
            return self.classes == other.classes
        return bool(self.signature == other.signature)

    def accepts(self, types: tuple[type, ...]) -> bool:
        """Whether arguments of `types` fit its signature."""
        if any(map(is_of_annotations, types)):
            return False
        return bool(plum.Signature(*types) <= self.signature)

    def fitting(self, types: tuple[type, ...]) -> list[bool]:
        """For each of `types`, whether it fits its place in the signature."""
        wanted = self.signature.expand_varargs(len(types))
        pairs = zip(types, wanted, strict=False)
        return [bool(plum.Signature(t) <= plum.Signature(w)) for t, w in pairs]

    @property
    def location(self) -> str:
        """`package/file.py:line` of its definition; the bare name of a builtin."""
        found: Any = inspect.unwrap(self.implementation)
        while isinstance(found, functools.partial):
            found = found.func
        module = getattr(found, "__module__", None) or type(found).__module__
        written = found if hasattr(found, "__code__") else type(found).__call__
        if not hasattr(written, "__code__"):
            return f"{module}.{getattr(found, '__name__', type(found).__name__)}"
        code = written.__code__
        file = code.co_filename.rsplit("/", 1)[-1]
        names = module.split(".")
        # A package is the folder of its `__init__.py`, a module is a file.
        place = "/".join([*(names if file == "__init__.py" else names[:-1]), file])
        return f"{place}:{code.co_firstlineno}"

    def __repr__(self) -> str:
        return f"<method {self} at {self.location}>"

    def __str__(self) -> str:
        shown = [type_name(hint) for hint in self.signature.types]
        if self.signature.has_varargs:
            shown.append(f"*{type_name(self.signature.varargs)}")
        return f"{self.name or self.implementation.__name__}({', '.join(shown)})"


# Operations stay functions and selections carry the rest, because calling an instance
# costs twice as much (decision 0006).
@dataclass(frozen=True, repr=False)
class Selection:
    """The method that a call with arguments of `types` runs."""

    operation: Any
    types: tuple[type, ...]
    method: Method

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Invoke the method; the arguments must be of the selected types."""
        return self.method.implementation(*arguments, **options)

    @property
    def function(self) -> Implementation:
        """What a call with `types` runs, as it is: to be kept where calls are many.

        Nothing stands before it: it takes every option by name, checks no types, and
        stays what it is when methods are added or replaced.

        Example:
            >>> import mdtensor as md
            >>> run = md.add.select(md.Int32Tensor, md.Int32Tensor).function
            >>> x = md.asarray([1, 2], dtype=md.int32)
            >>> run(x, x).tolist()
            [2, 4]
        """
        shorter = self.method.specialize and self.method.specialize(*self.types)
        return shorter or self.method.implementation

    def deduce(self, *specs: Any, **options: Any) -> Any:
        """Type and shape of the result for arguments of the given specs."""
        rule = self.method.deduce or self.operation.rule
        return rule(*specs, **self.operation.fill(options))

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        call = mismatch.called(self.operation, self.types)
        return f"{call} -> {self.method}  {self.method.location}"


def bare(declaration: Implementation) -> Implementation:
    """A function for plum to hang methods on, without defaults or annotations."""

    def unannotated(*arguments: Any) -> Any: ...

    unannotated.__name__ = unannotated.__qualname__ = declaration.__name__
    unannotated.__module__ = declaration.__module__
    return unannotated


def implemented(
    operation: Any, implementation: Implementation, types: tuple[Any, ...] | None
) -> tuple[Implementation, plum.Signature]:
    """What a method runs, and the types it is for: those given, or its annotations.

    Raises:
        RegistrationError: these are no classes, or what is given is no function that
            takes what the operation declares.
    """
    if types is None:
        hints = check_annotations(implementation, operation.name)
        # plum would convert every result to the annotated type: 3 us a call.
        implementation.__annotations__.pop("return", None)
        return implementation, _signature(implementation, hints)
    check_types(types, operation.name)
    check_callable(operation, implementation)
    function = as_function(implementation, operation.name)
    if operation.sequence:
        return function, plum.Signature(varargs=types[0])
    return function, plum.Signature(*types)


def _signature(
    implementation: Implementation, hints: tuple[Any, ...]
) -> plum.Signature:
    """The types that a method is for, as plum reads them, in a third of the time."""
    given = Parameters.of(implementation)
    if not hints or given.optional:
        return plum.Signature.from_callable(implementation)
    types = [plum.resolve_type_hint(hint) for hint in hints]
    if given.any_placed:
        return plum.Signature(*types[:-1], varargs=types[-1])
    return plum.Signature(*types)


def as_function(implementation: Implementation, name: str) -> Implementation:
    """A new function called `name` that calls any callable."""

    def call(*arguments: Any, **options: Any) -> Any:
        return implementation(*arguments, **options)

    call.__name__, call.__annotations__ = name, {}
    call.__wrapped__ = implementation  # type: ignore[attr-defined]
    call.__signature__ = inspect.signature(call, follow_wrapped=False)  # type: ignore[attr-defined]
    return call


# Only registration tests the frozen flag, so that calls do not pay for it (decision
# 0017).
def refuse_frozen(operation: Any, changed: Method) -> None:
    """Refuse a method to an operation that takes no more; see diagnose.freeze.

    Raises:
        RegistrationError: the operation is frozen.
    """
    if operation.frozen:
        raise RegistrationError(
            f"{operation.name} is frozen, and {changed} would change its methods",
            "Register it before diagnose.freeze(), or call diagnose.thaw()",
        )


def _spare(operation: Any) -> set[str]:
    """Options that methods may leave out: those of results that are rounded."""
    return set(TARGET) if "out" in operation.options else set()


def refuse_misfit(operation: Any, new: Method) -> None:
    """Refuse a method that does not take what the operation declares.

    Raises:
        RegistrationError: other keywords, another number of arguments, or a rule of
            deduction that does not take them.
    """
    if new.deduce is not None:
        check_rule(operation, new.deduce)
    given = Parameters.of(new.implementation)
    keywords = set(given.named)
    missing = set() if given.any_named else set(operation.options) - keywords
    if not keywords <= set(operation.options) or missing - _spare(operation):
        wanted = ", ".join(operation.options) or "none"
        raise RegistrationError(
            f"method {new} has the keywords {', '.join(sorted(keywords)) or 'none'}"
            f", the declaration of {operation.name} has {wanted}",
            "Take the declared ones, or **options; only out may be left out",
        )
    count, wanted_count = len(new.signature.types), len(operation.dispatched)
    if count != wanted_count and not new.signature.has_varargs:
        raise RegistrationError(
            f"method {new} dispatches on {count} arguments, the declaration of "
            f"{operation.name} on {wanted_count}",
            f"Annotate {', '.join(operation.dispatched)}, each before the slash",
        )
