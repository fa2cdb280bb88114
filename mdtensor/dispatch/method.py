"""Methods of an operation, and the selection of one of them for a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, ClassVar, NamedTuple, Self

import plum

from mdtensor.dispatch.call import TARGET
from mdtensor.dispatch.checks import (
    check_annotations,
    check_callable,
    check_rule,
    check_types,
)
from mdtensor.dispatch.classes import fits, is_below, is_of_annotations, is_open
from mdtensor.dispatch.declaration import Parameters, type_name
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    PromotionError,
    RegistrationError,
)
from mdtensor.reloading import Origin, origin_of

Implementation = Callable[..., Any]


# Two methods are one only if they are the same object, as `registry.restored` asks.
@dataclass(frozen=True, repr=False, eq=False)
class Method:
    """One implementation of an operation.

    Args:
        implementation: the function itself.
        signature: the types of the arguments, as plum orders them.
        deduce: the shape rule, if it differs from the declaration's.
        prepare: does the work that depends on constant arguments only, once.
        fast_path: given types, returns the function that runs instead, or None.
        name: the name of the operation.
        anywhere: whether it runs on every device, not only on the devices of the
            tensor types in its signature.
        direct: given the specs of the result and the arguments, returns the function
            of buffers that plans call instead, or None.
    """

    implementation: Implementation
    signature: plum.Signature
    deduce: Callable[..., Any] | None
    prepare: Callable[..., Any] | None
    fast_path: Callable[..., Implementation | None] | None = None
    name: str = ""
    anywhere: bool = False
    direct: Callable[..., Any] | None = None

    @functools.cached_property
    def rounds(self) -> bool:
        """Return whether the method takes `out=`, the grid of its result."""
        return "out" in Parameters.of(self.implementation).named

    @functools.cached_property
    def classes(self) -> tuple[type, ...] | None:
        """Return the types of the signature if all are classes, else None."""
        types: tuple[Any, ...] = self.signature.types
        is_plain = all(isinstance(t, type) for t in types)
        return types if is_plain and not self.signature.has_varargs else None

    def is_like(self, other: Method) -> bool:
        """Return whether both have the same signature."""
        # Tuples of classes compare far faster than plum's signatures.
        if self.classes is not None and other.classes is not None:
            return self.classes == other.classes
        return bool(self.signature == other.signature)

    @functools.cached_property
    def is_open(self) -> bool:
        """Return whether `ABC.register` can let the signature accept more classes."""
        return any(map(is_open, (*self.signature.types, *self._varargs)))

    @property
    def _varargs(self) -> tuple[Any, ...]:
        has_one = self.signature.has_varargs
        return (self.signature.varargs,) if has_one else ()

    def accepts(self, types: tuple[type, ...]) -> bool:
        """Return whether arguments of `types` fit the signature."""
        if any(map(is_of_annotations, types)):
            return False
        return self._has_place(types) and all(self.fitting(types))

    def may_accept_later(self, types: tuple[type, ...]) -> bool:
        """Return whether `ABC.register` can let the signature accept `types`."""
        wanted = self.signature.expand_varargs(len(types))
        fit = self.fitting(types)
        may_fit = [now or is_open(w) for now, w in zip(fit, wanted, strict=False)]
        return self._has_place(types) and all(may_fit) and not all(fit)

    def _has_place(self, types: tuple[type, ...]) -> bool:
        """Return whether the signature takes this number of arguments."""
        least = len(self.signature.types)
        return len(types) == least or (
            self.signature.has_varargs and len(types) > least
        )

    def fitting(self, types: tuple[type, ...]) -> list[bool]:
        """Return for each of `types` whether it fits its place in the signature."""
        wanted = self.signature.expand_varargs(len(types))
        return [fits(t, w) for t, w in zip(types, wanted, strict=False)]

    def is_below(self, other: Method) -> bool:
        """Return whether the signature is as specific as another one, or more."""
        mine, theirs = self.signature, other.signature
        # plum has the order of signatures with any number of arguments.
        if mine.has_varargs or theirs.has_varargs:
            return bool(mine <= theirs)
        pairs = zip(mine.types, theirs.types, strict=False)
        is_same_length = len(mine.types) == len(theirs.types)
        return is_same_length and all(is_below(a, b) for a, b in pairs)

    def function_for(self, types: tuple[type, ...]) -> Implementation:
        """Return the function that runs for `types`: a fast path, or the method."""
        fast_path = self.fast_path and self.fast_path(*types)
        return fast_path or self.implementation

    @property
    def is_refusal(self) -> bool:
        """Return whether the method only raises; its shape rule has this attribute."""
        return bool(getattr(self.deduce, "is_refusal", False))

    def __deepcopy__(self, _: object) -> Self:
        """Return the method itself, which cannot change."""
        return self

    @property
    def location(self) -> str:
        """Return `package/file.py:line` of the definition, or a builtin's name."""
        return place_of(self.implementation)

    def __repr__(self) -> str:
        return f"<method {self} at {self.location}>"

    @functools.cached_property
    def origin(self) -> Origin:
        """Return the run of the module that defines the method."""
        return origin_of(_module_of(self.implementation))

    def __post_init__(self) -> None:
        # A later run of the module has another one.
        self.origin  # noqa: B018

    def __str__(self) -> str:
        shown = [type_name(hint) for hint in self.signature.types]
        if self.signature.has_varargs:
            shown.append(f"*{type_name(self.signature.varargs)}")
        return f"{self.name or self.implementation.__name__}({', '.join(shown)})"


class Trial(NamedTuple):
    """The result of one trial call of a selection, on copies or on small tensors.

    Args:
        result: type and shape of the result, a spec or several; None if it raised.
        error: the exception that it raised; None if it ran.
        promotion: the common element type of the operands; None if they have one type,
            or are not promoted.
        casts: (from, to) for each conversion of elements, by names of element types.
        kernels: the kernels that ran, in order, each with `name` and `isa`.
        unknown: the reason why the call was not tried; empty if it was.
    """

    result: Any = None
    error: Exception | None = None
    promotion: Any = None
    casts: tuple[Any, ...] = ()
    kernels: tuple[Any, ...] = ()
    unknown: str = ""

    @property
    def kernel(self) -> Any:
        """Return the kernel that does the work; None if none was seen.

        This is the first compiled kernel. If no kernel is compiled, it is the last one,
        because checks and casts run first.
        """
        compiled = (kernel for kernel in self.kernels if kernel.is_compiled)
        return next(compiled, self.kernels[-1] if self.kernels else None)


# Operations stay functions and selections carry the rest, because calling an instance
# costs twice as much (decision 0006).
@dataclass(frozen=True, repr=False)
class Selection:
    """The answer to `which`: the method and function that a call runs, and more.

    Args:
        operation: the operation.
        types: the types of the arguments.
        method: the selected method.
        arguments: values, specs or types, as passed to `which`.
        options: the options of the call.
    """

    operation: Any
    types: tuple[type, ...]
    method: Method
    arguments: tuple[Any, ...] | None = field(default=None, compare=False)
    options: dict[str, Any] = field(default_factory=dict, compare=False)

    #: Runs a trial; set by `mdtensor.trial`, which imports tensors and this module.
    try_call: ClassVar[Callable[[Selection], Trial]]

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function; the arguments must have the selected types."""
        return self.function(*arguments, **options)

    @functools.cached_property
    def function(self) -> Implementation:
        """Return the function that a call with `types` runs: the method or fast path.

        The function takes every option by name and does not check types. It does not
        change when methods are added or replaced. Keep it for loops.

        Example:
            >>> import mdtensor as md
            >>> run = md.add.select(md.Int32Tensor, md.Int32Tensor).function
            >>> x = md.asarray([1, 2], dtype=md.int32)
            >>> run(x, x).tolist()
            [2, 4]
        """
        if any(self.options.get(name) is not None for name in TARGET):
            return self.method.implementation  # fast paths do not round
        return self.method.function_for(self.types)

    @property
    def place(self) -> str:
        """Return `package/file.py:line` of `function`."""
        return place_of(self.function)

    @property
    def device(self) -> Any:
        """Return the device of the first tensor type; None if there is none."""
        homes = (getattr(kind, "device", None) for kind in self.types)
        return next((home for home in homes if home is not None), None)

    @property
    def trial(self) -> Trial:
        """Return the result of a trial call, on copies or on small tensors."""
        if self.arguments is None:
            # `select` shares this selection between rule sets and ISAs: do not cache.
            return Selection.try_call(self)
        if "_trial" not in self.__dict__:
            self.__dict__["_trial"] = Selection.try_call(self)
        found: Trial = self.__dict__["_trial"]
        return found

    @property
    def kernel(self) -> str | None:
        """Return the name of the kernel that does the work in the trial."""
        found = self.trial.kernel
        return None if found is None else str(found.name)

    @property
    def isa(self) -> str | None:
        """Return the instruction set of the kernel."""
        found = self.trial.kernel
        return None if found is None else str(found.isa)

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Return all kernels that ran, in order."""
        return self.trial.kernels

    @property
    def promotion(self) -> Any:
        """Return the element type to which operands are promoted; None if to none."""
        return self.trial.promotion

    @property
    def casts(self) -> tuple[Any, ...]:
        """Return (from, to) for each conversion of elements, in or before a kernel."""
        return self.trial.casts

    @property
    def result(self) -> Any:
        """Return type and shape of the result as specs; None if the call raises."""
        return self.trial.result

    @property
    def error(self) -> Exception | None:
        """Return the exception that the call raises; None if it runs."""
        return self.trial.error

    @property
    def is_refusal(self) -> bool:
        """Return whether calls with these types raise on this host for all values.

        They raise if the method only raises, if the types do not have a common type,
        or if the device is absent or lacks a method.
        """
        refusals = (DispatchError, PromotionError, DeviceError)
        return self.method.is_refusal or isinstance(self.error, refusals)

    @property
    def reason(self) -> str:
        """Return the other methods that fit and are less specific, in a few words."""
        fitting = [m for m in self.operation.methods if m.accepts(self.types)]
        others = [str(m) for m in fitting if m is not self.method]
        if not others:
            return "the only method that fits"
        return f"more specific than {' and '.join(others)}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the question; the methods of that process answer it."""
        return select_again, (
            self.operation.function,
            self.types,
            self.arguments,
            self.options,
        )

    def deduce(self, *specs: Any, **options: Any) -> Any:
        """Return type and shape of the result for arguments of the given specs."""
        rule = self.method.deduce or self.operation.rule
        return rule(*specs, **self.operation.fill(options))

    @property
    def line(self) -> str:
        """Return the call, its method and the place of the function, in one line."""
        # Imported late, as for errors.
        from mdtensor.dispatch.call_errors import call_text

        call = call_text(self.operation, self.types)
        return f"{call} -> {self.method}  {self.place}"

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield (name, text) for each fact that `line` omits."""
        if self.function is not self.method.implementation:
            yield "fast path", f"of {self.method.location}"
        if self.is_refusal:
            yield "refuses", str(self.error or self.trial.unknown)
            return
        if self.trial.unknown:
            yield "kernel", f"unknown: {self.trial.unknown}"
        if self.error is not None:
            yield "raises", str(self.error)
        if self.promotion is not None:
            yield "promotes", f"to {self.promotion}"
        if self.casts:
            yield "casts", ", ".join(f"{a} to {b}" for a, b in self.casts)
        if self.kernels:
            home = "" if self.device is None else f", on {self.device}"
            yield "kernel", f"{self.kernel}, {self.isa}{home}"

    def __repr__(self) -> str:
        return f"<{self.line}>"

    def __str__(self) -> str:
        return "\n".join([self.line, *(f"  {n}: {t}" for n, t in self.facts())])


def select_again(
    function: Any, types: tuple[type, ...], arguments: Any, options: dict[str, Any]
) -> Selection:
    """Return the selection of `function` for these types, arguments and options."""
    found: Selection = function.select(*types)
    return replace(found, arguments=arguments, options=options)


def most_specific(methods: Iterable[Method]) -> list[Method]:
    """Return the most specific methods; if there are several, they are ambiguous.

    Source: plum, `Resolver.resolve`.
    """
    found: list[Method] = []
    for new in methods:
        below = [known for known in found if new.is_below(known)]
        above = [known for known in found if known.is_below(new)]
        # A method above a found one is out, and puts those that it is below out.
        if below or not above:
            found = [k for k in found if k not in below or k in above] + [new]
    return found


def function_and_signature(
    operation: Any,
    implementation: Implementation,
    types: tuple[Any, ...] | None,
    frame: FrameType | None = None,
) -> tuple[Implementation, plum.Signature]:
    """Return the function of a method and its signature, from `types` or annotations.

    Args:
        frame: where the method is defined, for annotations with local classes.

    Raises:
        RegistrationError: the types are not classes, or the implementation is not a
            function that takes the declared parameters.
    """
    if types is None:
        hints = check_annotations(implementation, operation.name, frame)
        return implementation, _signature(implementation, hints)
    check_types(types, operation.name)
    check_callable(operation, implementation)
    function = as_function(implementation, operation)
    if operation.sequence:
        return function, plum.Signature(varargs=types[0])
    return function, plum.Signature(*types)


def _signature(
    implementation: Implementation, hints: tuple[Any, ...]
) -> plum.Signature:
    """Return the plum signature of a method with these annotations."""
    types = [plum.resolve_type_hint(hint) for hint in hints]
    if types and Parameters.of(implementation).any_placed:
        return plum.Signature(*types[:-1], varargs=types[-1])
    return plum.Signature(*types)


def as_function(implementation: Implementation, operation: Any) -> Implementation:
    """Return a new function, named as `operation`, that calls `implementation`."""

    def call(*arguments: Any, **options: Any) -> Any:
        return implementation(*arguments, **options)

    # Methods are keyed by their function, so each registration needs its own.
    call.__name__, call.__annotations__ = operation.name, {}
    call.__wrapped__ = implementation  # type: ignore[attr-defined]
    shown = inspect.signature(call, follow_wrapped=False)
    if "out" in operation.options and _takes_out(implementation):
        # A call passes `out=` only to methods that name it.
        first, rest = shown.parameters.values()
        out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        shown = shown.replace(parameters=[first, out, rest])
    call.__signature__ = shown  # type: ignore[attr-defined]
    return call


def _takes_out(function: Implementation) -> bool:
    try:
        given = Parameters.of(function)
    except (TypeError, ValueError):  # some builtins do not tell their parameters
        return False
    return "out" in (*given.placed, *given.named)


# Only registration tests the frozen flag, so that calls do not pay for it (decision
# 0017).
def refuse_frozen(operation: Any, changed: object) -> None:
    """Raise if the methods of an operation must not change; see diagnose.freeze.

    Raises:
        RegistrationError: the operation is frozen.
    """
    if operation.frozen:
        raise RegistrationError(
            f"{operation.name} is frozen, and {changed} would change its methods",
            "Register it before diagnose.freeze(), or call diagnose.thaw()",
        )


def _optional_names(operation: Any) -> set[str]:
    """Return the options that methods may omit: `out` and `rounding`, if declared."""
    return set(TARGET) if "out" in operation.options else set()


def refuse_misfit(operation: Any, new: Method) -> None:
    """Raise if a method does not take the declared parameters.

    Raises:
        RegistrationError: keywords or number of arguments differ, or the shape rule
            does not take them.
    """
    if new.deduce is not None:
        check_rule(operation, new.deduce)
    given = Parameters.of(new.implementation)
    keywords = set(given.named)
    # A method with **options takes every option.
    missing = set() if given.any_named else set(operation.options) - keywords
    if not keywords <= set(operation.options) or missing - _optional_names(operation):
        wanted = ", ".join(operation.options) or "none"
        raise RegistrationError(
            f"method {new} has the keywords {', '.join(sorted(keywords)) or 'none'}"
            f", but the declaration of {operation.name} has {wanted}",
            "Declare the same keywords, or **options; only out may be omitted",
        )
    count, wanted_count = len(new.signature.types), len(operation.dispatched)
    if count != wanted_count and not new.signature.has_varargs:
        raise RegistrationError(
            f"method {new} dispatches on {count} arguments, but the declaration of "
            f"{operation.name} on {wanted_count}",
            f"Annotate {', '.join(operation.dispatched)}, each before the slash",
        )


def _module_of(function: Any) -> object:
    # A wrapper of `types=` has our module.
    return getattr(getattr(function, "__wrapped__", function), "__module__", None)


def place_of(function: Any) -> str:
    """Return `package/file.py:line` of a function; the bare name of a builtin."""
    # A wrapper's own line would hide the function that does the work.
    found: Any = inspect.unwrap(function)
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
