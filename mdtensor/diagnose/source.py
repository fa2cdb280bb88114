"""The registered methods of operations and of plum's functions.

plum keeps the methods that it chooses from and forgets the methods that a later one
replaced. This module reads the registrations again. So it also finds replaced methods,
and an annotation that cannot be resolved spoils one method only.

No other file reads private attributes of plum. The module also finds the functions that
a package declares or extends, and the distribution that a module belongs to.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from types import ModuleType
from typing import Any

import plum

from mdtensor.diagnose.hints import Hint, hint, short
from mdtensor.dispatch.operation import operations
from mdtensor.errors import OptionError, shown
from mdtensor.tensor import leaves

MISSING = plum.Signature._default_varargs


@dataclass(frozen=True, eq=False)
class Registered:
    """A method as it was registered.

    Args:
        function: the name of its function.
        implementation: the Python function that runs.
        types: the annotation of each dispatched parameter.
        varargs: the annotation of `*arguments`, or `MISSING`.
        precedence: the number that breaks a tie.
        order: how many methods the function had before this method was registered.
        shortened: whether plum made the method by dropping a parameter with a default.
    """

    function: str
    implementation: Callable[..., Any]
    types: tuple[Any, ...]
    varargs: Any = MISSING
    precedence: int = 0
    order: int = 0
    shortened: bool = False

    @cached_property
    def hints(self) -> tuple[Hint, ...]:
        """Return the hint of each dispatched parameter, `*arguments` last."""
        extra = () if self.varargs is MISSING else (self.varargs,)
        return tuple(map(hint, (*self.types, *extra)))

    @property
    def has_varargs(self) -> bool:
        return self.varargs is not MISSING

    def at(self, arity: int) -> tuple[Any, ...]:
        """Return the annotations for a call with `arity` arguments."""
        # `*arguments` takes every argument after the named ones, each with the same
        # annotation.
        return self.types + (self.varargs,) * (arity - len(self.types))

    def takes(self, arity: int) -> bool:
        """Return whether the method can be called with `arity` arguments."""
        count = len(self.types)
        return count == arity or (self.has_varargs and count < arity)

    @cached_property
    def parameters(self) -> tuple[inspect.Parameter, ...]:
        return tuple(inspect.signature(self._bare).parameters.values())

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the names of the dispatched parameters; `*x` gives x0, x1, ..."""
        positional = [p.name for p in self.parameters if p.kind in _POSITIONAL]
        rest = next((p.name for p in self.parameters if p.kind is _COLLECTS), "x")
        count = len(self.types)
        found = [*positional, *(f"{rest}{at}" for at in range(count))][:count]
        return (*found, rest) if self.has_varargs else tuple(found)

    @cached_property
    def keywords(self) -> tuple[inspect.Parameter, ...]:
        """Return the keyword-only parameters."""
        kind = inspect.Parameter.KEYWORD_ONLY
        return tuple(p for p in self.parameters if p.kind == kind)

    @cached_property
    def _bare(self) -> Any:
        return inspect.unwrap(self.implementation)

    @property
    def module(self) -> str:
        return str(getattr(self._bare, "__module__", "") or "")

    @property
    def file(self) -> str:
        """Return `package/file.py`, which is the same on every machine."""
        code = getattr(self._bare, "__code__", None)
        # Builtins and callable objects have no code, so their module has to do.
        if code is None:
            return self.module
        # Not the path of the machine: reports and fingerprints must be equal wherever
        # the package is installed.
        folders = self.module.split(".")[:-1]
        return "/".join([*folders, code.co_filename.replace("\\", "/").split("/")[-1]])

    @property
    def line(self) -> int:
        code = getattr(self._bare, "__code__", None)
        return int(code.co_firstlineno) if code is not None else 0

    @cached_property
    def text(self) -> str:
        """Return the signature: `add(x1: RealTensor, x2: RealTensor)`."""
        shown = [
            f"{name}: {short(kind)}"
            for name, kind in zip(self.names, self.hints, strict=True)
        ]
        if self.has_varargs:
            shown[-1] = f"*{shown[-1]}"
        return f"{self.function}({', '.join(shown)})"


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_COLLECTS = inspect.Parameter.VAR_POSITIONAL


@dataclass(frozen=True)
class Unresolved:
    """A method with an annotation that cannot be resolved in its module."""

    method: Registered
    problem: str


@dataclass(frozen=True, eq=False)
class Source:
    """A function and all that was registered for it.

    Args:
        name: the name with its module.
        call: the function itself.
        methods: the methods that plum chooses from, in plum's order.
        replaced: pairs of a method and the later method that replaced it.
        unresolved: the methods that plum cannot read.
        owner: the class that the function belongs to, if any.
        sequence: whether it takes one sequence of any length, not several arguments.
    """

    name: str
    call: Any
    methods: tuple[Registered, ...]
    replaced: tuple[tuple[Registered, Registered], ...] = ()
    unresolved: tuple[Unresolved, ...] = ()
    owner: str = ""
    sequence: bool = False

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def module(self) -> str:
        return str(self.call.__module__)

    @property
    def is_operation(self) -> bool:
        return hasattr(self.call, "operation")


def sources(functions: object = None) -> tuple[Source, ...]:
    """Return the methods registered for each of `functions`, sorted by name.

    Args:
        functions: an operation, a function of plum, a Dispatcher, a module, or several
            of these; all operations if you omit it.

    Raises:
        OptionError: an item is none of these.
    """
    found = {id(call): call for call in _calls(functions)}
    return tuple(sorted(map(source, found.values()), key=lambda s: s.name))


def source(function: object) -> Source:
    """Return the methods registered for one operation or plum function.

    Raises:
        OptionError: `function` is neither.
    """
    if is_function(function):
        is_plum = isinstance(function, plum.Function)
        return _of_plum(function) if is_plum else _of_operation(function)
    raise OptionError(
        f"expected an operation or a plum function, not {shown(function)}",
        "Pass an operation such as md.add, or a function from a plum.Dispatcher",
    )


def _calls(functions: object) -> Iterator[Any]:
    if functions is None:
        yield from operations().values()
    # A text is iterable, but it is a name here, and the error below says so.
    elif isinstance(functions, Iterable) and not isinstance(functions, str):
        for function in functions:
            yield from _calls_of(function)
    else:
        yield from _calls_of(functions)


def _calls_of(holder: object) -> Iterator[Any]:
    """Yield the functions of a Dispatcher or a module, or the one function."""
    if isinstance(holder, plum.Dispatcher):
        # plum keeps the functions of classes apart from the others.
        for group in (holder.functions, *holder.classes.values()):
            yield from group.values()
    elif isinstance(holder, types.ModuleType):
        yield from filter(is_function, vars(holder).values())
    else:
        yield source(holder).call


def is_function(value: object) -> bool:
    """Return whether `value` has methods: an operation, or a plum function."""
    try:
        operation = getattr(value, "operation", None)
        # Errors of mdtensor have an attribute `operation` too, but without methods.
        return isinstance(value, plum.Function) or hasattr(operation, "methods")
    # `value` may be any object of a module, with attributes that raise.
    except Exception:
        return False


def _of_operation(call: Any) -> Source:
    operation = call.operation
    methods = tuple(
        Registered(
            operation.name,
            method.implementation,
            tuple(method.signature.types),
            method.signature.varargs,
            method.signature.precedence,
            order,
        )
        for order, method in enumerate(operation.methods)
    )
    name = f"{call.__module__}.{operation.name}"
    return Source(name, call, methods, sequence=operation.sequence)


def _of_plum(function: Any) -> Source:
    listed: dict[Any, Registered] = {}
    replaced, unresolved = [], []
    known = _known_signatures(function)
    # Registrations and not methods: plum forgets a method once another one replaces it
    # (decision 0017).
    for order, entry in enumerate([*function._resolved, *function._pending]):
        try:
            new = _methods_of(function.__name__, entry, order, known)
        # Reading annotations runs code of the caller, which may raise anything.
        except Exception as error:
            bare = Registered(function.__name__, entry[0], (), order=order)
            unresolved.append(Unresolved(bare, _first_line(error)))
            continue
        for method in new:
            key = (method.hints, method.has_varargs, method.precedence)
            # Types, varargs and precedence together are what plum compares before it
            # replaces.
            if key in listed:
                replaced.append((listed[key], method))
            listed[key] = method
    methods = _last_of_each(listed.values(), replaced)
    name = f"{function.__module__}.{function.__qualname__}"
    owner = name.rpartition(".")[0] if function._owner_name else ""
    return Source(name, function, methods, tuple(replaced), tuple(unresolved), owner)


def _last_of_each(
    listed: Iterable[Registered], replaced: list[tuple[Registered, Registered]]
) -> tuple[Registered, ...]:
    """Return the last method of each signature; add the others to `replaced`."""
    last: dict[Any, Registered] = {}
    for method in listed:
        # plum keeps methods of equal types and unequal precedence, and runs the last.
        earlier = last.pop((method.hints, method.has_varargs), None)
        if earlier is not None:
            replaced.append((earlier, method))
        last[method.hints, method.has_varargs] = method
    return tuple(last.values())


def _known_signatures(function: Any) -> dict[int, Any]:
    """Return the longest signature that plum has read for each implementation."""
    found: dict[int, Any] = {}
    for method in function._resolver.methods:
        key = id(method.implementation)
        # plum registers the shorter forms of a method under the same implementation;
        # the longest one is what its author wrote.
        if key not in found or len(method.signature.types) > len(found[key].types):
            found[key] = method.signature
    return found


def _methods_of(
    name: str, entry: tuple[Any, Any, Any], order: int, known: dict[int, Any]
) -> list[Registered]:
    """Return one method, and the shorter ones that plum makes from its defaults."""
    implementation, signature, precedence = entry
    # What plum has read already is used, since it resolves calls by that reading.
    if signature is None:
        signature = known.get(id(implementation))
        if signature is None:
            signature = plum.Signature.from_callable(implementation)
    else:
        precedence = signature.precedence
    for member in (c for kind in signature.types for c in hint(kind).members):
        # beartype puts off names that it cannot find; the check makes it look now.
        if type(member).__module__.startswith("beartype."):
            issubclass(int, member)
    # plum makes a method for each parameter with a default that a call may omit.
    forms = [signature]
    if _has_defaults(implementation):
        forms = plum._signature.append_default_args(signature, implementation)
    return [
        Registered(
            name,
            implementation,
            tuple(form.types),
            form.varargs,
            precedence,
            order,
            shortened=form is not signature,
        )
        for form in forms
    ]


def _has_defaults(implementation: object) -> bool:
    # A quick look, because plum's own reading takes a signature of each method; only
    # for other callables does it have to decide.
    if type(implementation) is types.FunctionType:
        wraps = hasattr(implementation, "__wrapped__")
        return wraps or bool(implementation.__defaults__)
    return True


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def functions_of(packages: Iterable[str]) -> tuple[Any, ...]:
    """Return the operations and plum functions that packages declare or extend.

    A plum function is found wherever it is kept: under a name of a module, in a class,
    or in a registry of its own. Modules that are not imported are ignored.

    Args:
        packages: names of packages or modules; their submodules are included.

    Example:
        >>> import mdtensor.quant
        >>> found = functions_of(["mdtensor.quant"])
        >>> {"add", "quantize"} <= {f.__name__ for f in found}
        True

    Source: ours.
    """
    wanted = tuple(packages)
    # A snapshot sorted by name: looking at modules may import others.
    modules = [m for name, m in sorted(sys.modules.items()) if _inside(name, wanted)]
    found = {id(call): call for call in _candidates(filter(None, modules))}
    return tuple(call for call in found.values() if _has_part(call, wanted))


def brings_types(packages: Iterable[str]) -> bool:
    """Return whether packages define concrete tensor types.

    Args:
        packages: names as in `functions_of`.

    Example:
        >>> brings_types(["mdtensor.quant"]), brings_types(["mdtensor.linalg"])
        (True, False)
    """
    wanted = tuple(packages)
    return any(_inside(leaf.__module__, wanted) for leaf in leaves())


def _candidates(modules: Iterable[ModuleType]) -> Iterator[Any]:
    yield from operations().values()
    for module in modules:
        # A copy, since reading annotations may import names into the module.
        for value in list(vars(module).values()):
            if isinstance(value, plum.Dispatcher):
                for group in (value.functions, *value.classes.values()):
                    yield from group.values()
            elif isinstance(value, plum.Function):
                yield value
    # plum keeps every function, and classes and registries hold some without a name.
    yield from filter(_is_current, list(plum.Function._instances))


def _is_current(call: Any) -> bool:
    """Return whether a function is from a module as it is imported now."""
    home = sys.modules.get(str(call.__module__))
    names = getattr(inspect.unwrap(call._f), "__globals__", None)
    # A module that was removed and imported again left its old functions behind.
    return home is not None and names is vars(home)


def _has_part(call: object, wanted: tuple[str, ...]) -> bool:
    found = source(call)
    # A method that cannot be read still belongs to the package that registered it.
    methods = [*found.methods, *(broken.method for broken in found.unresolved)]
    homes = {str(call.__module__), *(method.module for method in methods)}
    return any(_inside(home, wanted) for home in homes)


def _inside(name: str, wanted: tuple[str, ...]) -> bool:
    # With the dot, because `mdtensor_units` is not inside `mdtensor`.
    return any(name == each or name.startswith(f"{each}.") for each in wanted)


def distribution(module: str) -> str:
    """Return the distribution of a module, or its top-level package if unknown.

    Example:
        >>> distribution("mdtensor.quant.ops.arithmetic")
        'mdtensor'
    """
    # Metadata knows top-level packages only.
    package = module.partition(".")[0]
    owners = _owners().get(package, ())
    return owners[0] if owners else package


@cache
def _owners() -> dict[str, list[str]]:
    """Return the distributions of each installed package."""
    # Reading the metadata is slow, so it happens once, and only if there are findings.
    found = metadata.packages_distributions()
    return {package: sorted(set(names)) for package, names in found.items()}
