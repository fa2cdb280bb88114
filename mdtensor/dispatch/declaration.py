"""What a declaration says about its parameters, read from signature and docstring.

Args:
    x1: any shape.
    kernel, stride: (height, width);
        more lines are indented further.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter
from keyword import iskeyword
from numbers import Integral, Real
from types import FunctionType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from mdtensor.errors import OptionError, RegistrationError, shown
from mdtensor.html import small_table, tag

#: What passes for a number of Python; truth values do not.
_NUMBERS = {int: Integral, float: Real}
_ENTRY = re.compile(r"    (\w+(?:, \w+)*): ?(.*)")
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Argument:
    """A parameter whose type chooses the method.

    Args:
        name: as declared.
        type: a class or a union of classes, as declared or as methods take it.
        doc: what the declaration says about it.
    """

    name: str
    type: Any
    doc: str

    def __str__(self) -> str:
        return f"{self.name}: {type_name(self.type)}"


@dataclass(frozen=True)
class Attribute:
    """A parameter that is handed on to the method.

    Args:
        name: as declared.
        type: the annotation; `Any` if there is none.
        default: `inspect.Parameter.empty` if it must be given.
        doc: what the declaration says about it.
    """

    name: str
    type: Any
    default: Any
    doc: str

    def accepts(self, value: Any) -> bool:
        """Whether it is of the type; an integer is a float, a truth value no number."""
        given = type(value)
        for hint in members(self.type):
            kind = get_origin(hint) or hint
            if kind is Any or not isinstance(kind, type) or given is kind:
                return True
            if given is not bool and isinstance(value, _NUMBERS.get(kind, kind)):
                return True
        return False

    @property
    def wrong_default(self) -> str:
        """What is wrong with the default; empty if nothing is."""
        given = self.default
        if given is REQUIRED or given is None or self.accepts(given):
            return ""
        return (
            f"the default of {self.name} is {shown(given)}, not {type_name(self.type)}"
        )

    def __str__(self) -> str:
        text = f"{self.name}: {type_name(self.type)}"
        return text if self.default is REQUIRED else f"{text} = {self.default!r}"


class Described:
    """An operation as its declaration describes it."""

    checked: bool
    declaration: Callable[..., Any]
    dispatched: Any
    options: Any
    methods: Any
    name: str

    @property
    def description(self) -> str:
        """What it does: the first paragraph of its docstring, on one line."""
        paragraphs = inspect.cleandoc(self.declaration.__doc__ or "").split("\n\n")
        return " ".join(paragraphs[0].split())

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The parameters that it dispatches on.

        Of one without an annotation the type is what the methods take there.
        """
        docs = parameter_docs(self.declaration)
        types = parameter_types(self.declaration)
        return tuple(
            Argument(name, types.get(name) or self._taken(at), docs.get(name, ""))
            for at, name in enumerate(self.dispatched)
        )

    def _taken(self, at: int) -> Any:
        count = len(self.dispatched)
        hints = (m.signature.expand_varargs(count)[at] for m in self.methods)
        found = tuple(dict.fromkeys(hints))
        return Union[found] if found else Any

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The parameters that it hands on, in their order."""
        docs = parameter_docs(self.declaration)
        types = parameter_types(self.declaration)
        return tuple(
            Attribute(name, types.get(name, Any), default, docs.get(name, ""))
            for name, default in self.options.items()
        )

    @property
    def schema(self) -> str:
        """The attributes with their types and defaults, on one line."""
        return f"Attributes: {', '.join(map(str, self.attributes)) or 'none'}"

    def _repr_html_(self) -> str:
        """What a notebook shows: what it does, and its methods with their places."""
        given = ", ".join([*map(str, self.arguments), "/", *map(str, self.attributes)])
        rows = [
            (tag("code", method), tag("code", method.location))
            for method in self.methods
        ]
        return tag(
            "div",
            tag("p", tag("code", f"{self.name}({given})")),
            tag("p", self.description),
            small_table(["method", "where"], rows),
        )

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is not of the type of the attribute `name`.

        Raises:
            OptionError: it is not.
        """
        (found,) = (known for known in self.attributes if known.name == name)
        if value is not found.default and not found.accepts(value):
            wanted = type_name(found.type)
            problem = f"{name} is {type(value).__name__}, not {wanted}"
            raise OptionError(problem, self.schema, self.name)

    @property
    def checked_options(self) -> tuple[str, ...]:
        """The parameters that calls check: those with a type, if any are."""
        types = parameter_types(self.declaration) if self.checked else {}
        return tuple(name for name in self.options if name in types)

    def check_defaults(self) -> None:
        """Refuse a default that calls would refuse.

        Raises:
            RegistrationError: there is one.
        """
        for attribute in self.attributes:
            if wrong := attribute.wrong_default:
                raise RegistrationError(wrong, "Give one of its type", self.name)


def checked_signature(
    declaration: Any, category: Any, sequence: bool
) -> inspect.Signature:
    """The parameters of a declaration, of which an operation can be made.

    Raises:
        RegistrationError: no function with a name, nothing to dispatch on, parameters
            without number, or a category that is no text.
    """
    name = getattr(declaration, "__name__", None)
    if not is_name(name) or not isinstance(declaration, FunctionType):
        problem = f"{shown(declaration)} declares nothing"
        raise RegistrationError(problem, "Decorate a function: def name(x, /)")
    if not declaration.__module__:
        fix = f"Set {name}.__module__; exec takes it from the name __name__"
        raise RegistrationError(f"{name} is of no module", fix)
    if not isinstance(category, str):
        problem = f"the category of {name} is {shown(category)}"
        raise RegistrationError(problem, "Use a text")
    signature = inspect.signature(declaration)
    parameters = signature.parameters.values()
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            fix = "Name each; sequence=True takes any number of tensors"
            raise RegistrationError(f"{name} declares {parameter}", fix)
    count = sum(p.kind is p.POSITIONAL_ONLY for p in parameters)
    if not count or (sequence and count > 1):
        more = f"{count} positional-only parameters, not one sequence,"
        problem = more if count else "no positional-only parameter"
        fix = f"Declare it as def {name}(x, /)"
        raise RegistrationError(f"{name} has {problem} to dispatch on", fix)
    return signature


def parameter_docs(declaration: Callable[..., Any]) -> dict[str, str]:
    """What the docstring says about each parameter.

    Example:
        >>> import mdtensor as md
        >>> parameter_docs(md.add)["x2"]
        'broadcasts against `x1`.'
    """
    lines = iter(inspect.cleandoc(declaration.__doc__ or "").splitlines())
    found: dict[str, str] = {}
    names: list[str] = []
    if not any(line == "Args:" for line in lines):
        return found
    for line in lines:
        if line and not line.startswith(" "):
            break
        entry = _ENTRY.fullmatch(line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2].strip())
        elif line:
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found


def parameter_types(declaration: Callable[..., Any]) -> dict[str, Any]:
    """The annotations that name types; of others, nothing."""
    try:
        hints = get_type_hints(declaration)
    except (NameError, TypeError):  # names that are known to type checkers only
        hints = {}
    return {name: hint for name, hint in hints.items() if hint is not Any}


def is_name(given: Any) -> bool:
    """Whether parameters and operations can be called so."""
    return isinstance(given, str) and given.isidentifier() and not iskeyword(given)


def is_hint(given: Any) -> bool:
    """Whether it is a class, a union, or what else stands for a type."""
    is_type = isinstance(given, type) or get_origin(given) is not None
    return is_type or given is None or given is Any


def type_name(hint: Any) -> str:
    """A class, a union or any other annotation in few words."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(type_name, get_args(hint)))
    if isinstance(hint, type) and not get_args(hint):
        return "None" if hint is type(None) else hint.__name__
    return str(hint).removeprefix("typing.")


def members(hint: Any) -> tuple[Any, ...]:
    """The classes of a union, or the one."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


# What a function takes; from its code where that says it, as `inspect` takes long.

_BY_POSITION = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD


# Parameters are read from the code object, because `inspect.signature` made the import
# slow (decision 0036).
@dataclass(frozen=True)
class Parameters:
    """The parameters of a function.

    Args:
        placed: names of those that can be given by position.
        named: names of those that can only be given by name.
        optional: names of those of both that have a default.
        any_placed: it takes any number by position.
        any_named: it takes any name.
    """

    placed: tuple[str, ...]
    named: tuple[str, ...]
    optional: frozenset[str]
    any_placed: bool
    any_named: bool

    @staticmethod
    def of(function: Callable[..., Any]) -> Parameters:
        """Those of any callable.

        Raises:
            TypeError, ValueError: it does not say, as some builtins.
        """
        is_plain = type(function) is FunctionType and not (
            hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
        )
        return _of_code(function) if is_plain else _of_signature(function)


def _of_code(function: Any) -> Parameters:
    code, defaults = function.__code__, function.__defaults__ or ()
    count = code.co_argcount
    placed = code.co_varnames[:count]
    optional = {*placed[count - len(defaults) :], *(function.__kwdefaults__ or ())}
    return Parameters(
        placed,
        code.co_varnames[count : count + code.co_kwonlyargcount],
        frozenset(optional),
        bool(code.co_flags & CO_VARARGS),
        bool(code.co_flags & CO_VARKEYWORDS),
    )


def _of_signature(function: Any) -> Parameters:
    found = inspect.signature(function).parameters.values()
    kinds = {p.kind for p in found}
    return Parameters(
        tuple(p.name for p in found if p.kind in _BY_POSITION),
        tuple(p.name for p in found if p.kind is p.KEYWORD_ONLY),
        frozenset(p.name for p in found if p.default is not p.empty),
        Parameter.VAR_POSITIONAL in kinds,
        Parameter.VAR_KEYWORD in kinds,
    )
