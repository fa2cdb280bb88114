"""Generic functions: one declaration, many methods, selected by all arguments.

    @generic                                # declares; the body never runs
    def add(x1, x2, /, *, out=None): ...

    @method(add)                            # implements, for the annotated types
    def add(x1: NumericTensor, x2: NumericTensor, /): ...

    add.select(Float32Tensor, Int8Tensor)   # which method, without any tensor
    add(x, y)                               # select, then call

Dispatch uses the positional-only parameters of a declaration, and no others. Each
tuple of types is resolved once, by plum's order of signatures. The method goes into the
call table, nested dicts that the next call reads. The public function is compiled from
the declaration, see `call`.

Two kinds of calls stay out of the call table: those whose classes may end, see
`classes`, and those that `ABC.register` can give another method.
"""

from __future__ import annotations

import inspect
import sys
from abc import get_cache_token
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn, Protocol
from warnings import warn

from mdtensor.dispatch.annotations import settle
from mdtensor.dispatch.call import (
    callable_of,
    converter,
    device_that_implements,
    is_tensor,
    need_tensors,
    target,
)
from mdtensor.dispatch.checks import check_rule
from mdtensor.dispatch.classes import WeakMethods, fits, is_of_annotations, lives_on
from mdtensor.dispatch.declaration import (
    REQUIRED,
    Parameters,
    argument_types,
    is_evaluated,
    require_parameters,
    type_name,
)
from mdtensor.dispatch.later import import_methods
from mdtensor.dispatch.method import (
    Implementation,
    Method,
    Selection,
    function_and_signature,
    most_specific,
)
from mdtensor.dispatch.method_set import MethodSet
from mdtensor.errors import (
    DispatchError,
    NoMethodError,
    OptionError,
    RegistrationError,
    shown,
)
from mdtensor.reloading import origin_of

_OPERATIONS: dict[str, Generic] = {}


class Generic(Protocol):
    """The type of the functions that `generic` returns."""

    __name__: str
    operation: Operation

    def select(self, *types: type) -> Selection: ...
    def __call__(self, *arguments: Any, **options: Any) -> Any: ...


class Operation(MethodSet):
    """A generic function: its declaration, its methods, its call table."""

    #: If set, wraps the functions that calls run, and call tables stay empty.
    observe: ClassVar[Callable[..., Implementation] | None] = None
    #: Makes a tensor of a NumPy array or scalar; set by `tensor`, which imports us.
    from_numpy: ClassVar[Callable[[Any], Any]]
    #: Writes the result of a call into a tensor; set by `operators`, which imports us.
    write: ClassVar[Callable[[Any, Any, str, tuple[Any, ...]], Any]]

    #: Returns the function that raises in the place of a method that does not run on
    #: the devices of these types, or None if it does; set by `registry`.
    refusal: ClassVar[Callable[[Selection], Implementation | None]]

    def __init__(
        self,
        declaration: Implementation,
        parameters: Parameters,
        rule: Callable[..., Any],
        sequence: bool = False,
        category: str = "",
        checked: bool = False,
    ) -> None:
        super().__init__()
        self.name = declaration.__name__
        self.declaration = declaration
        self.origin = origin_of(declaration.__module__)
        self.parameters = parameters
        self.rule = rule
        self.sequence = sequence
        self.category = category or declaration.__module__.rpartition(".")[2]
        self.checked = checked
        self.function: Any = None
        self.table: dict[Any, Any] = {}
        # With `out=` a call runs the method itself, never its short way.
        self.rounded: dict[Any, Any] = {}
        self._selections: dict[tuple[type, ...], Selection] = {}
        self._fleeting = WeakMethods()
        # The classes in the signatures of methods; None: not collected yet.
        self._held: frozenset[type] | None = None
        self._admitted: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by name: there is one operation in a process."""
        return getattr, (self.function, "operation")

    # Read on use: `inspect.signature` takes most of the time of a declaration
    # (decision 0091).
    @cached_property
    def signature(self) -> inspect.Signature:
        """Return the declared parameters with annotations and defaults."""
        return inspect.signature(self.declaration)

    @property
    def dispatched(self) -> tuple[str, ...]:
        """Return the names of the parameters whose types select the method."""
        return self.parameters.before_slash

    @cached_property
    def _defaults(self) -> tuple[type, ...]:
        """Return the types of the defaults of the last dispatched parameters."""
        found = (self.signature.parameters[name].default for name in self.dispatched)
        return tuple(type(given) for given in found if given is not REQUIRED)

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return the parameters that methods receive by keyword, with defaults."""
        parameters = self.signature.parameters.values()
        return {p.name: p.default for p in parameters if p.kind != p.POSITIONAL_ONLY}

    def fill(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return `options` with the declared defaults, without `out` if it is None.

        A rounding rule becomes a part of `out`.
        """
        filled = {**self.options, **options}
        if "out" not in filled:
            return filled
        filled["out"] = target(filled["out"], filled.pop("rounding", None))
        if filled["out"] is None:
            del filled["out"]
        return filled

    @property
    def has_entries(self) -> bool:
        return bool(self.table or self.rounded)

    def forget_selections(self) -> None:
        """Empty all caches: a new method may be more specific for any types."""
        self._selections.clear()
        self._fleeting.clear()
        self._held = None
        self.clear_table()

    def clear_table(self) -> None:
        """Make the next calls select their methods again."""
        with self.lock:
            self.table.clear()
            self.rounded.clear()

    # Only a miss resolves, since a cache that is called takes four times as long
    # (decision 0001).
    def select(self, *types: type) -> Selection:
        """Return the selection for arguments of `types`, without running anything.

        You may omit trailing types for which the declaration has defaults.

        Raises:
            NoMethodError: no method fits.
            AmbiguousDispatchError: two fit equally well.
        """
        if not all(isinstance(t, type) for t in types):
            fix = f"Use which({self.name}, x) for tensors"
            raise DispatchError("methods are selected by classes", fix, self.name)
        if len(types) < len(self.dispatched):
            types = self._with_defaults(types)
        self._refresh()
        found = self._selections.get(types)
        return self._select_new(types) if found is None else found

    def _with_defaults(self, types: tuple[type, ...]) -> tuple[type, ...]:
        """Return `types` with those of the declared defaults that follow."""
        missing = len(self.dispatched) - len(types)
        # Without enough defaults, the error names the types that were given.
        return types + self._defaults[-missing:] * (missing <= len(self._defaults))

    def _select_new(self, types: tuple[type, ...]) -> Selection:
        """Return the selection for types that have none, and remember its method."""
        with self.lock:
            known = self._fleeting.get(types)
            found = Selection(self, types, known or self._resolve(types))
            if known is None and self._live_on(types):
                self._selections[types] = found
            elif known is None:
                self._fleeting.put(types, found.method)
        return found

    def _refresh(self) -> None:
        """Import the methods; forget what `ABC.register` may have changed."""
        if self.later:
            import_methods(self)
        # Only an operation with open methods pays for the look at the token.
        if self._open_methods and get_cache_token() != self._token:
            with self.lock:
                self._forget()

    def _live_on(self, types: tuple[type, ...]) -> bool:
        """Return whether all classes stay at least as long as the methods do."""
        if self._held is None:
            plain = (method.classes or () for method in self._methods.values())
            self._held = frozenset(kind for classes in plain for kind in classes)
        # A signature keeps its classes alive, so the call table may as well.
        return all(kind in self._held or lives_on(kind) for kind in types)

    def _is_settled(self, types: tuple[type, ...]) -> bool:
        """Return whether the call table may hold `types` until the methods change."""
        # A remembered selection tells at once that the classes live on.
        is_kept = types in self._selections or self._live_on(types)
        return is_kept and not any(
            method.may_accept_later(types) for method in self._open_methods
        )

    def _resolve(self, types: tuple[type, ...]) -> Method:
        if not types:
            raise DispatchError("no arguments", "Give at least one", f"{self.name}()")
        self.admit(types)
        found = self._find_methods(types)
        if len(found) == 1:
            return found[0]
        errors = _call_errors()
        raise errors.ambiguous(self, types) if found else errors.no_method(self, types)

    def _find_methods(self, types: tuple[type, ...]) -> list[Method]:
        """Return the most specific method, several that are ambiguous, or none."""
        methods = self.known_methods
        for known in methods:
            if known.classes == types:  # no method is more specific
                return [known]
        return most_specific(m for m in methods if m.accepts(types))

    def find(self, types: tuple[type, ...]) -> Selection | None:
        """Return the selection as `select` does, or None instead of its errors."""
        self._refresh()
        try:
            self.admit(types)
        except NoMethodError:
            return None
        found = self._find_methods(types)
        return Selection(self, types, found[0]) if len(found) == 1 else None

    def admit(self, types: tuple[type, ...]) -> None:
        """Check that the types fit the annotations of the declaration.

        Raises:
            DispatchError: one does not; the error names parameter and annotation.
        """
        # plum cannot order generic aliases such as `list[int]`.
        if any(map(is_of_annotations, types)):
            raise _call_errors().annotation_error(self, types)
        if not self.sequence and len(types) != len(self.dispatched):
            raise _call_errors().no_method(self, types)
        # One annotation stands for the whole sequence, and the types are those of its
        # items.
        wanted = {} if self.sequence else self._admitted_types()
        for name, given in zip(self.dispatched, types, strict=False):
            want = wanted.get(name)
            is_default = given is type(self.signature.parameters[name].default)
            is_free = want is None or is_default
            if not (is_free or fits(given, want)):
                known = types, name, given, type_name(want)
                raise _call_errors().wrong_type_error(self, *known)

    def _admitted_types(self) -> dict[str, Any]:
        """Return the annotations that restrict arguments, evaluated once."""
        if self._admitted is not None:
            return self._admitted
        found = argument_types(self.declaration)
        # A name that is missing now may be in its module later.
        if is_evaluated(self.declaration):
            self._admitted = found
        return found

    def implementation(self, *types: type) -> Implementation:
        """Return the function for `types`, and enter it in the call table."""
        self._refresh()
        # Classes that may end come here at each call, so they come first.
        known = self._fleeting.get(types)
        if known is not None and Operation.observe is None:
            return _function(Selection(self, types, known))
        with self.lock:
            if need_tensors(self, types):
                found = converter(self, Operation.from_numpy)
            elif (device := device_that_implements(types)) is not None:
                found = device.implementation(self, types)
            else:
                selection = self._select(types)
                found = _function(selection)
                if Operation.observe is not None:
                    return Operation.observe(selection, found)
            if self._is_settled(types):
                self._enter(self.table, types, found)
        return found

    def _enter(
        self, table: dict[Any, Any], types: tuple[type, ...], found: Implementation
    ) -> None:
        """Write `found` into a table of nested types, which calls read first."""
        # Nested dicts need one look-up per argument, but no tuple in each call.
        keys = [types] if self.sequence else types
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = found

    def _select(self, types: tuple[type, ...]) -> Selection:
        """Return the selection as `select` does, with errors that hold no arguments."""
        try:
            return self.select(*types)
        except DispatchError as error:
            # The KeyError of the call table: its frames keep the arguments alive.
            error.__context__ = None
            raise

    def rounding(self, *types: type) -> Implementation:
        """Return the function for `types` that takes `out=`, or one that raises."""
        self._refresh()
        with self.lock:
            if need_tensors(self, types):
                return converter(self, Operation.from_numpy)
            if (device := device_that_implements(types)) is not None:
                implementation: Implementation = device.implementation(self, types)
                return implementation
            selection = self._select(types)
            if selection.method.rounds:
                found = _function(selection, selection.method.implementation)
            else:
                found = self._writing(_function(selection))
            if Operation.observe is not None:
                return Operation.observe(selection, found)
            if self._is_settled(types):
                self._enter(self.rounded, types, found)
        return found

    def _writing(self, function: Implementation) -> Implementation:
        """Return `function`, whose result goes into the tensor `out=`."""

        def call(*arguments: Any, out: Any, **options: Any) -> Any:
            if not is_tensor(out):
                _call_errors().refuse_out(self, *arguments, out=out)
            return Operation.write(
                out, function(*arguments, **options), self.name, arguments
            )

        return call


# Imported late: right calls need no errors (decision 0091).
def _call_errors() -> Any:
    """Return the module with the errors of calls."""
    from mdtensor.dispatch import call_errors

    return call_errors


def _refuse(operation: Operation, *call: Any) -> NoReturn:
    """Raise the error of a call that its declaration does not allow."""
    _call_errors().refuse(operation, *call)
    raise AssertionError


# Here and not in each method, so that a method for kinds cannot forget the check
# (decision 0070).
def _function(
    selection: Selection, function: Implementation | None = None
) -> Implementation:
    """Return the function that a call runs, or the one that refuses its devices."""
    refusal = Operation.refusal(selection)
    return refusal or function or selection.function


def generic(
    declaration: Implementation | None = None,
    /,
    *,
    deduce: Callable[..., Any] | None = None,
    sequence: bool = False,
    category: str = "",
    checked: bool | None = None,
) -> Any:
    """Declare an operation. The body never runs; its docstring is the only one.

    Args:
        declaration: its positional-only parameters select the method, which receives
            all others by keyword.
        deduce: the shape rule: returns the spec of the result for specs of the
            arguments, see `mdtensor.generics`, without computing elements.
        sequence: the one positional parameter is a sequence of tensors, and methods
            take them as `*arrays`.
        category: its family; by default the last name of the module.
        checked: check options against their annotations: defaults at once, values at
            each call. By default only outside of mdtensor, whose shape rules do it.

    Returns:
        A function with the declared parameters and the attributes `select` and
        `operation`.

    Raises:
        RegistrationError: there are no parameters to dispatch on, the shape rule does
            not take the parameters, or a default does not have its declared type.

    Example:
        >>> import mdtensor as md
        >>> @md.generic
        ... def double(x, /):
        ...     '''Twice `x`.'''
        >>> @md.method(double)
        ... def double(x: md.NumericTensor, /):
        ...     return x + x
        >>> double(md.asarray([1, 2])).tolist()
        [2, 4]
    """
    if declaration is None:
        options: dict[str, Any] = {"sequence": sequence, "category": category}
        options |= {"deduce": deduce, "checked": checked}
        return lambda function: generic(function, **options)
    parameters = require_parameters(declaration, category, sequence)
    settle(declaration, sys._getframe(1))
    is_ours = declaration.__module__.startswith("mdtensor.")
    # Our own shape rules check options already; a second check would slow down calls.
    if checked is None:
        checked = not is_ours
    rule = no_rule if deduce is None else deduce
    operation = Operation(declaration, parameters, rule, sequence, category, checked)
    # A test checks ours, instead of each import (decision 0091).
    if not is_ours:
        check_rule(operation, rule)
    if checked:
        operation.check_defaults()
    call: Any = callable_of(operation, partial(_refuse, operation))
    call.operation, call.select = operation, operation.select
    call._repr_html_ = operation._repr_html_
    operation.function = call
    _OPERATIONS[f"{declaration.__module__}.{operation.name}"] = call
    return call


def method(
    function: object,
    /,
    *,
    deduce: Callable[..., Any] | None = None,
    prepare: Callable[..., Any] | None = None,
    fast_path: Callable[..., Implementation | None] | None = None,
    override: bool = False,
    types: tuple[Any, ...] | None = None,
    anywhere: bool = False,
    specialize: Callable[..., Implementation | None] | None = None,
    direct: Callable[..., Any] | None = None,
) -> Callable[[Implementation], Any]:
    """Add the decorated function to the operation `function`.

    Args:
        function: the operation.
        deduce: the shape rule of this method, if it is not the declared one. If it has
            a method `of`, `deduce.of(operation)` is the rule.
        prepare: given the constant arguments, returns a step for compiled plans.
        fast_path: given the types of a call, returns the function that runs instead
            of the method, or None. Both give the same results.
        override: replace a method that has the same signature. A module that runs
            again, by `importlib.reload`, replaces its own methods without it.
        types: the types of the arguments, instead of annotations. Then the method can
            be any callable.
        anywhere: it runs on every device, not only on the devices of the tensor types
            in its signature.
        specialize: the former name of `fast_path`.
        direct: given the specs of the result and the arguments, and the options,
            returns a function for plans, or None. It takes the buffers of the tensor
            arguments and returns that of the result, with the bytes of the method. It
            raises IndexError where the method raises an error.

    Returns:
        A decorator that returns the operation, so that its name keeps its meaning.

    Raises:
        RegistrationError: `function` is not an operation, the annotation of a parameter
            is not a class, the keywords differ from the declaration (`**options`
            accepts all), or there is a method with this signature.
    """
    if not hasattr(function, "operation"):
        name = getattr(function, "__name__", None) or shown(function)
        raise RegistrationError(
            f"{name} is not an operation",
            "Use @method(operation) with an operation that @generic declared",
        )

    if specialize is not None:
        warn("specialize= is now fast_path=", DeprecationWarning, stacklevel=2)
        fast_path = fast_path or specialize

    def add_method(implementation: Implementation) -> Any:
        operation: Operation = function.operation
        # Annotations may name classes that are local to the caller.
        frame = sys._getframe(1)
        found, signature = function_and_signature(
            operation, implementation, types, frame
        )
        bind = getattr(deduce, "of", None)
        rule = bind(operation) if callable(bind) else deduce
        rest = rule, prepare, fast_path, operation.name, anywhere, direct
        module = frame.f_globals.get("__name__")
        operation.add_method(Method(found, signature, *rest), override, module)
        return operation.function

    return add_method


def operations() -> dict[str, Generic]:
    """Return all declared operations by qualified name."""
    return dict(_OPERATIONS)


def no_rule(*_: Any, **__: Any) -> Any:
    """Raise: the shape rule of operations that are declared without one."""
    raise OptionError("no shape rule is declared", "Pass deduce= to generic")
