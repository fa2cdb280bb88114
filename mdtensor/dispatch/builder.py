"""The builder `register`: operations that you declare step by step.

    register("tensor.scale").category("arithmetic").describe("x · factor.")
        .argument("x", NumericTensor, "any shape.")
        .attribute("factor", float, 1.0, "any number.")
        .deduce(same)
        .method(scale)

The chain builds a declaration with signature, annotations and docstring. The first use,
a call or a look-up, makes an operation of it, the same that `generic` would make. If
steps are missing then, the error lists them.

One name is one operation, for tensors and tiles. You may write the prefixes `tensor.`
and `tile.`; they do not select anything.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

from mdtensor.dispatch.checks import misfits
from mdtensor.dispatch.declaration import (
    REQUIRED,
    Argument,
    Attribute,
    Parameters,
    is_hint,
    is_name,
)
from mdtensor.dispatch.method import Implementation
from mdtensor.dispatch.operation import Generic, generic, method, operations
from mdtensor.errors import RegistrationError, shown
from mdtensor.reloading import is_reload, origin_of

PREFIXES = ("tensor.", "tile.")
A_TEXT, A_FUNCTION = "Use a str", "Give a function from specs to a spec"
_PENDING: dict[str, Registration] = {}
_LOCK = threading.RLock()


class Registration:
    """A declaration in progress; see `register`.

    Each step returns the registration. The first use of the registration, or of its
    name, makes the operation; after that, steps raise `RegistrationError`.
    """

    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module
        self._category = self._description = ""
        self._arguments: list[Argument] = []
        self._attributes: list[Attribute] = []
        self._rule: Callable[..., Any] | None = None
        self._function: Generic | None = None

    def category(self, name: str) -> Self:
        """Set the family that the operation belongs to; call it once."""
        self._refuse_again("a category", self._category)
        self._category = self._text("the category", name)
        return self

    def describe(self, text: str) -> Self:
        """Set the description, a formula or a sentence; call it once."""
        self._refuse_again("a description", self._description)
        self._description = inspect.cleandoc(self._text("the description", text))
        return self

    def argument(self, name: str, type: object = Any, doc: str = "") -> Self:
        """Add a parameter whose type chooses the method."""
        self._refuse_parameter(name, type, doc)
        self._arguments.append(Argument(name, type, doc))
        return self

    def attribute(
        self, name: str, type: object, default: object = REQUIRED, doc: str = ""
    ) -> Self:
        """Add a parameter that methods receive by keyword; required if no default."""
        self._refuse_parameter(name, type, doc)
        new = Attribute(name, type, default, doc)
        if wrong := new.wrong_default:
            raise self._error(wrong, "Give a default of this type")
        self._attributes.append(new)
        return self

    def deduce(self, rule: Callable[..., Any]) -> Self:
        """Set the rule that infers type and shape of the result; call it once."""
        self._refuse_again("a shape rule", self._rule)
        if not callable(rule):
            raise self._error(f"the shape rule is {shown(rule)}", A_FUNCTION)
        self._rule = rule
        return self

    def method(self, implementation: Implementation, **options: Any) -> Generic:
        """Add a method, as `md.method` does, and return the operation."""
        found: Generic = method(self, **options)(implementation)
        return found

    @property
    def missing(self) -> list[str]:
        """Return the names of the required steps that you have not called yet."""
        steps = {
            "category": self._category,
            "describe": self._description,
            "argument": self._arguments,
            "deduce": self._rule,
        }
        return [step for step, given in steps.items() if not given]

    @property
    def problems(self) -> list[str]:
        """Return the missing steps, or the reasons why the shape rule does not fit."""
        if self.missing or self._rule is None or self._function is not None:
            return self.missing
        declared = Parameters.of(self._declaration())
        found = misfits(declared, self._rule, len(self._arguments))
        return [f"the shape rule {problem}" for problem in found]

    @property
    def function(self) -> Generic:
        """Return the operation; the first access declares it.

        Raises:
            RegistrationError: steps are missing, or the shape rule does not
                take the parameters.
        """
        # Two threads may use the registration first; one declaration must win.
        with _LOCK:
            if self._function is None:
                self._function = self._declare()
            return self._function

    def _declare(self) -> Generic:
        if self.missing:
            steps = ", ".join(self.missing)
            raise self._error(f"{steps} missing", "Add these steps to the chain")
        declare = generic(deduce=self._rule, category=self._category, checked=True)
        found: Generic = declare(self._declaration())
        del _PENDING[self.name]
        return found

    @property
    def operation(self) -> Any:
        return self.function.operation

    @property
    def select(self) -> Callable[..., Any]:
        return self.function.select

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.function(*arguments, **options)

    def __repr__(self) -> str:
        state = f"{', '.join(self.missing)} missing" if self.missing else "complete"
        return f"<registration of {self.name}, {state}>"

    @property
    def _parts(self) -> list[Argument | Attribute]:
        return [*self._arguments, *self._attributes]

    def _refuse_again(self, what: str, given: object) -> None:
        self._refuse_in_use()
        if given:
            raise self._error(f"{what} is given already", "Give it once")

    def _refuse_parameter(self, name: object, type: object, doc: object) -> None:
        self._refuse_in_use()
        if not is_name(name):
            fix = "Use an identifier"
            raise self._error(f"{shown(name)} is not a parameter name", fix)
        if any(known.name == name for known in self._parts):
            raise self._error(f"{name} is a parameter already", "Give it once")
        if not is_hint(type):
            fix = "Use a class, a union of classes, or Any"
            raise self._error(f"the type of {name} is {shown(type)}", fix)
        if not isinstance(doc, str):
            raise self._error(f"the documentation of {name} is {shown(doc)}", A_TEXT)

    def _text(self, what: str, given: object) -> str:
        if not isinstance(given, str) or not given.strip():
            raise self._error(f"{what} is {shown(given)}", A_TEXT)
        return given

    def _refuse_in_use(self) -> None:
        if self._function is not None:
            raise self._error(
                "the declaration is complete and cannot change any more",
                "Declare everything before you add the first method",
            )

    def _error(self, problem: str, fix: str = "") -> RegistrationError:
        return RegistrationError(problem, fix, f"register({self.name})")

    def _declaration(self) -> Callable[..., Any]:
        """Return a function with the signature, the annotations and the docstring."""

        def declaration(*_: Any, **__: Any) -> Any: ...

        # `inspect` reads `__signature__` first, so the body needs no parameters.
        first, rest = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.KEYWORD_ONLY
        parameters = [_parameter(known, first) for known in self._arguments]
        parameters += [_parameter(known, rest) for known in self._attributes]
        signature = inspect.Signature(parameters)
        declaration.__dict__["__signature__"] = signature
        declaration.__name__ = declaration.__qualname__ = self.name
        declaration.__module__ = self.module
        declaration.__annotations__ = {p.name: p.annotation for p in parameters}
        declaration.__doc__ = self._docstring()
        return declaration

    def _docstring(self) -> str:
        entries = [
            f"    {known.name}: {' '.join(known.doc.split())}".rstrip()
            for known in self._parts
        ]
        return "\n".join([self._description, "", "Args:", *entries, ""])


def _parameter(known: Argument | Attribute, kind: Any) -> inspect.Parameter:
    default = getattr(known, "default", REQUIRED)
    return inspect.Parameter(known.name, kind, default=default, annotation=known.type)


def register(name: str, *, override: bool = False) -> Registration:
    """Start the declaration of the operation `name`.

    Args:
        name: an identifier, with or without the prefix `tensor.` or `tile.`.
        override: replace the operation with the same name and module. Use it in a
            notebook, where a cell runs again.

    Returns:
        A registration with the steps `category`, `describe`, `argument`, `attribute`,
        `deduce` and `method`. All but `attribute` and `method` are required.

    Raises:
        RegistrationError: `name` is not an identifier, or another operation has it.

    Example:
        >>> import mdtensor as md
        >>> halve = (
        ...     md.register("tensor.halve")
        ...     .category("arithmetic")
        ...     .describe("x / 2.")
        ...     .argument("x", md.FloatingTensor, "any shape.")
        ...     .deduce(lambda x: x)
        ... )
        >>> @md.method(halve)
        ... def halve(x: md.FloatingTensor, /):
        ...     return x * 0.5
        >>> halve(md.asarray([1.0, 3.0])).tolist()
        [0.5, 1.5]
        >>> md.get_op("tensor.halve") is halve
        True

    Source: PyPTO, `REGISTER_OP`.
    """
    bare = without_prefix(name) if isinstance(name, str) else ""
    if not is_name(bare):
        raise RegistrationError(
            f"{shown(name)} is not an operation name",
            "Use an identifier; the prefixes tensor. and tile. are allowed",
        )
    # The module of the caller, as for a function that `generic` decorates.
    module = sys._getframe(1).f_globals.get("__name__", "__main__")
    for key in [f"{p.module}.{p.name}" for p in pending_registrations()] + [
        *operations()
    ]:
        is_mine = key == f"{module}.{bare}" and (override or _is_again(key))
        if key.rpartition(".")[2] == bare and not is_mine:
            raise RegistrationError(
                f"there is an operation {bare}: {key}",
                "Add a method to it, or use another name",
                f"register({name})",
            )
    _PENDING[bare] = found = Registration(bare, module)
    return found


def _is_again(key: str) -> bool:
    """Return whether the module of an operation runs again, as in a reload."""
    known = operations().get(key)
    if known is None:
        return False
    origin = known.operation.origin
    return is_reload(origin, origin_of(origin.module))


def pending_registrations() -> tuple[Registration, ...]:
    """Return the registrations that have not become operations yet."""
    return tuple(_PENDING.values())


def without_prefix(name: str) -> str:
    """Return `add` for `tensor.add` and `tile.add`."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name
