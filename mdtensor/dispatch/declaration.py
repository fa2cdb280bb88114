"""Parameters of a declaration, read from its signature and docstring.

The docstring documents them in this form:

    Args:
        x1: any shape.
        kernel, stride: (height, width);
            further lines are indented more.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter
from keyword import iskeyword
from numbers import Integral, Real
from types import FunctionType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from mdtensor.dispatch.annotations import annotations_of, typed
from mdtensor.errors import OptionError, RegistrationError, shown
from mdtensor.html import small_table, tag

#: Abstract classes of Python's numbers. A bool is not accepted as one.
_NUMBERS = {int: Integral, float: Real}
_ENTRY = r"    (\w+(?:, \w+)*): ?(.*)"
#: The modules of annotations that errors and signatures leave out.
_HOMES = r"\b(?:typing|collections\.abc|numpy)\."
REQUIRED = inspect.Parameter.empty


class Argument(NamedTuple):
    """A parameter whose type chooses the method.

    Args:
        name: as declared.
        type: a class or a union of classes, as declared or as in the methods.
        doc: its documentation.
    """

    name: str
    type: Any
    doc: str

    def __str__(self) -> str:
        return f"{self.name}: {type_name(self.type)}"


class Attribute(NamedTuple):
    """A parameter that is passed to the method by keyword.

    Args:
        name: as declared.
        type: the annotation; `Any` if there is none.
        default: `inspect.Parameter.empty` if the parameter is required.
        doc: its documentation.
    """

    name: str
    type: Any
    default: Any
    doc: str

    def accepts(self, value: object) -> bool:
        """Return whether `value` has the type: an int is a float, a bool is neither."""
        given = type(value)
        for hint in members(self.type):
            kind = get_origin(hint) or hint
            # The exact class is the usual case, and cheaper than the abstract classes
            # of numbers.
            if kind is Any or not isinstance(kind, type) or given is kind:
                return True
            # NumPy integers are integers too, but True for a size is a mistake.
            if given is not bool and isinstance(value, _NUMBERS.get(kind, kind)):
                return True
        return False

    @property
    def wrong_default(self) -> str:
        """Return the problem with the default as text; empty if it is fine."""
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
    """The part of an operation that its declaration describes."""

    checked: bool
    declaration: Callable[..., Any]
    dispatched: Any
    options: Any
    methods: Any
    name: str

    @property
    def description(self) -> str:
        """Return the first paragraph of the docstring, on one line."""
        paragraphs = inspect.cleandoc(self.declaration.__doc__ or "").split("\n\n")
        return " ".join(paragraphs[0].split())

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Return the dispatched parameters.

        A parameter without an annotation, or one of `object`, has the union of the
        methods' types.
        """
        docs = parameter_docs(self.declaration)
        types = argument_types(self.declaration)
        return tuple(
            Argument(
                name, types.get(name) or self._method_types(at), docs.get(name, "")
            )
            for at, name in enumerate(self.dispatched)
        )

    def _method_types(self, at: int) -> Any:
        count = len(self.dispatched)
        hints = (m.signature.expand_varargs(count)[at] for m in self.methods)
        found = tuple(dict.fromkeys(hints))
        return Union[found] if found else Any

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the parameters that methods receive by keyword, in order."""
        docs = parameter_docs(self.declaration)
        types = parameter_types(self.declaration)
        return tuple(
            Attribute(name, types.get(name, Any), default, docs.get(name, ""))
            for name, default in self.options.items()
        )

    @property
    def schema(self) -> str:
        """Return the attributes with their types and defaults, on one line."""
        return f"Attributes: {', '.join(map(str, self.attributes)) or 'none'}"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the description, and the methods with places."""
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

    def check(self, name: str, value: object) -> None:
        """Check that a value has the type of the attribute `name`.

        Raises:
            OptionError: `value` has another type.
        """
        # The default is accepted whatever its type, such as None for an int.
        (found,) = (known for known in self.attributes if known.name == name)
        if value is not found.default and not found.accepts(value):
            wanted = type_name(found.type)
            problem = f"{name} is {type(value).__name__}, not {wanted}"
            raise OptionError(problem, self.schema, self.name)

    @property
    def options_to_check(self) -> tuple[str, ...]:
        """Return the names of the options that calls check: the annotated ones."""
        types = parameter_types(self.declaration) if self.checked else {}
        return tuple(name for name in self.options if name in types)

    def check_defaults(self) -> None:
        """Check that the defaults have the declared types.

        Raises:
            RegistrationError: one does not.
        """
        for attribute in self.attributes:
            if wrong := attribute.wrong_default:
                raise RegistrationError(wrong, "Give a default of this type", self.name)


def require_parameters(
    declaration: object, category: object, sequence: bool
) -> Parameters:
    """Return the parameters of a declaration, or raise if it cannot be an operation.

    Raises:
        RegistrationError: the declaration is not a function with a name, does not have
            parameters to dispatch on, or has `*args` or `**kwargs`; or the category is
            not a str.
    """
    name = getattr(declaration, "__name__", None)
    if not is_name(name) or not isinstance(declaration, FunctionType):
        problem = f"{shown(declaration)} is not a function with a name"
        raise RegistrationError(problem, "Decorate a function: def name(x, /)")
    if not declaration.__module__:
        fix = f"Set {name}.__module__; exec takes it from the name __name__"
        raise RegistrationError(f"{name} does not have a module", fix)
    if not isinstance(category, str):
        problem = f"the category of {name} is {shown(category)}"
        raise RegistrationError(problem, "Use a str")
    found = Parameters.of(declaration)
    # Dispatch needs a fixed number of types, and errors need the names.
    if found.any_placed or found.any_named:
        surplus = _surplus_parameter(declaration)
        fix = "Name each; sequence=True takes any number of tensors"
        raise RegistrationError(f"{name} declares {surplus}", fix)
    count = len(found.before_slash)
    if not count or (sequence and count > 1):
        more = f"{count} positional-only parameters, not one sequence,"
        problem = more if count else "no positional-only parameter"
        fix = f"Declare it as def {name}(x, /)"
        raise RegistrationError(f"{name} has {problem} to dispatch on", fix)
    return found


def _surplus_parameter(declaration: Callable[..., Any]) -> Parameter:
    """Return the first of `*args` and `**kwargs`."""
    found = inspect.signature(declaration).parameters.values()
    return next(p for p in found if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def parameter_docs(declaration: Callable[..., Any]) -> dict[str, str]:
    """Return the documentation of each parameter, from the docstring.

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
    # The loop goes on where the search for `Args:` stopped.
    for line in lines:
        if line and not line.startswith(" "):
            break
        entry = re.fullmatch(_ENTRY, line)
        if entry:
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2].strip())
        elif line:
            found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return found


def parameter_types(declaration: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations that are types; `Any` is left out."""
    hints = typed(declaration)
    return {name: hint for name, hint in hints.items() if hint is not Any}


# `object` is what a declaration writes for a tensor: it admits every class, and the
# methods' types say more to a reader.
def argument_types(declaration: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations that restrict arguments; `object` is left out as well."""
    hints = parameter_types(declaration)
    return {name: hint for name, hint in hints.items() if hint is not object}


def is_evaluated(declaration: Callable[..., Any]) -> bool:
    """Return whether each annotation names a type that is known by now."""
    return typed(declaration).keys() == (annotations_of(declaration) or {}).keys()


def is_name(given: object) -> bool:
    """Return whether `given` is a valid name for a parameter or an operation."""
    return isinstance(given, str) and given.isidentifier() and not iskeyword(given)


def is_hint(given: object) -> bool:
    """Return whether `given` is a class, a union, or another type annotation."""
    is_type = isinstance(given, type) or get_origin(given) is not None
    return is_type or given is None or given is Any


def type_name(hint: object) -> str:
    """Return a short text for a class, a union or another annotation."""
    if get_origin(hint) in (Union, UnionType):
        return " | ".join(map(type_name, get_args(hint)))
    if isinstance(hint, type) and not get_args(hint):
        return "None" if hint is type(None) else hint.__name__
    return re.sub(_HOMES, "", str(hint))


def members(hint: object) -> tuple[Any, ...]:
    """Return the classes of a union, or a tuple of the one class."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


# The parameters of any function.

_BY_POSITION = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD


# Parameters are read from the code object, because `inspect.signature` made the import
# slow (decision 0036).
class Parameters(NamedTuple):
    """The parameters of a function.

    Args:
        before_slash: names of the positional-only parameters.
        placed: names of all parameters that can be passed by position.
        named: names of the keyword-only parameters.
        optional: names of all parameters with a default.
        any_placed: whether there is `*args`.
        any_named: whether there is `**kwargs`.
    """

    before_slash: tuple[str, ...]
    placed: tuple[str, ...]
    named: tuple[str, ...]
    optional: frozenset[str]
    any_placed: bool
    any_named: bool

    @property
    def options(self) -> tuple[str, ...]:
        """Return the names of all parameters that can be passed by name."""
        return (*self.placed[len(self.before_slash) :], *self.named)

    @staticmethod
    def of(function: Callable[..., Any]) -> Parameters:
        """Return the parameters of any callable.

        Raises:
            TypeError, ValueError: it does not have a signature, as some builtins.
        """
        is_plain = type(function) is FunctionType and not (
            hasattr(function, "__wrapped__") or hasattr(function, "__signature__")
        )
        if is_plain:
            return _of_code(function)
        return Parameters.of_signature(inspect.signature(function))

    @staticmethod
    def of_signature(signature: inspect.Signature) -> Parameters:
        """Return the parameters of a signature."""
        found = signature.parameters.values()
        kinds = {p.kind for p in found}
        return Parameters(
            tuple(p.name for p in found if p.kind is p.POSITIONAL_ONLY),
            tuple(p.name for p in found if p.kind in _BY_POSITION),
            tuple(p.name for p in found if p.kind is p.KEYWORD_ONLY),
            frozenset(p.name for p in found if p.default is not p.empty),
            Parameter.VAR_POSITIONAL in kinds,
            Parameter.VAR_KEYWORD in kinds,
        )


def _of_code(function: Any) -> Parameters:
    code, defaults = function.__code__, function.__defaults__ or ()
    count = code.co_argcount
    # Names of parameters come first among a code's variables.
    placed = code.co_varnames[:count]
    optional = {*placed[count - len(defaults) :], *(function.__kwdefaults__ or ())}
    return Parameters(
        placed[: code.co_posonlyargcount],
        placed,
        code.co_varnames[count : count + code.co_kwonlyargcount],
        frozenset(optional),
        bool(code.co_flags & CO_VARARGS),
        bool(code.co_flags & CO_VARKEYWORDS),
    )
