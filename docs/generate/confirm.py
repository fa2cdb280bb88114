"""Confirm findings of `mdtensor dispatch check` by plum itself, without our tables.

    confirmed(finding, [source, ...], universe) -> bool

Each rule has a check of its own: plum resolves the call of an ambiguity and raises, the
method list of plum lacks an overwritten method, and so on. The check uses private
attributes of plum: its public functions resolve values, and not types alone.
"""

import gc
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from itertools import islice, permutations, product
from typing import Any

import plum

from mdtensor.diagnose.finding import Finding, MethodInfo
from mdtensor.diagnose.hints import derives, hint, referent, type_name
from mdtensor.diagnose.source import Source
from mdtensor.diagnose.universe import Universe

#: Most calls that one confirmation tries.
TRIES = 20_000
SIMPLE = (bool, int, float, complex, str, bytes, list, dict, tuple, set, frozenset)


def confirmed(finding: Finding, sources: Iterable[Source], universe: Universe) -> bool:
    """Return whether plum behaves as a finding says.

    Args:
        finding: the finding.
        sources: all functions that were checked.
        universe: the types that were checked.
    """
    check = CHECKS[finding.rule]
    if finding.rule == "MDT008":
        return check(finding, None, universe)
    calls = [each.call for each in sources if each.name == finding.function]
    return any(check(finding, call, universe) for call in calls)


def methods(call: Any) -> list[Any]:
    """Return the methods of a function as plum has them."""
    call._resolve_pending_registrations()
    return list(call._resolver.methods)


def located(call: Any, info: MethodInfo) -> list[Any]:
    """Return plum's methods that are defined at the place of a method."""
    return [m for m in methods(call) if place(m) == (info.module, info.line)]


def place(method: Any) -> tuple[str, int]:
    bare = inspect.unwrap(method.implementation)
    code = getattr(bare, "__code__", None)
    return bare.__module__ or "", code.co_firstlineno if code else 0


def calls_of(
    finding: Finding, call: Any, universe: Universe
) -> Iterator[plum.Signature | tuple[Any, ...]]:
    """Yield calls with the types of a witness: first types, then values."""
    named: dict[str, list[type]] = {}
    for cls in universe.types:
        named.setdefault(type_name(cls), []).append(cls)
    columns = [named.get(name, []) for name in finding.witness]
    types = list(islice(product(*columns), 64))
    yield from (plum.Signature(*each) for each in types)
    for each in types:
        values = [list(instances(cls, call, at)) for at, cls in enumerate(each)]
        yield from islice(product(*values), TRIES)


def instances(cls: type, call: Any, at: int) -> Iterator[Any]:
    """Yield instances of a class, such as the ones that annotations name."""
    for method in methods(call):
        kinds = method.signature.expand_varargs(at + 1)
        yield from named_values(kinds[at], cls) if at < len(kinds) else ()
    if cls in SIMPLE:
        yield cls()
    elif cls is type(None):
        yield None
    else:
        yield from bare_instance(cls)


def bare_instance(cls: type) -> Iterator[Any]:
    """Yield an instance that no constructor of the class has seen, if there is one."""
    # The base in C decides the memory of an instance: `object`, or `ndarray`.
    base = next(c for c in cls.__mro__ if c.__module__ in ("builtins", "numpy"))
    for arguments in ((), ((),)):
        # A class of C may forbid it, or need arguments that only it knows.
        with suppress(Exception):
            yield base.__new__(cls, *arguments)
            return


def named_values(annotation: Any, cls: type) -> Iterator[Any]:
    """Yield the instances of a class that an annotation names."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        yield from (value for value in arguments if type(value) is cls)
    elif origin is type and cls is type:
        for parent in hint(arguments[0]).members:
            yield from (parent, *descendants(parent))
    elif origin is typing.Union:
        for each in arguments:
            yield from named_values(each, cls)


def descendants(cls: type) -> Iterator[type]:
    for child in type.__subclasses__(cls):
        yield child
        yield from descendants(child)


def resolver(found: Iterable[Any], *, plain: bool = False) -> Any:
    """Return a resolver with some methods; `plain` leaves their precedences out."""
    new = type(plum.Function(lambda: None)._resolver)("f")
    for method in found:
        signature = method.signature
        if plain:
            precedence = {"precedence": 0}
            signature = plum.Signature(
                *signature.types, varargs=signature.varargs, **precedence
            )
        new.register(plum.Method(method.implementation, signature))
    return new


def outcome(found: Any, call: Any) -> Any:
    """Return the method that a resolver chooses, or the class of its error."""
    try:
        return found.resolve(call)
    except (plum.AmbiguousLookupError, plum.NotFoundLookupError) as error:
        return type(error)
    # Comparing an annotation with a value may run any code.
    except Exception:
        return None


def is_ambiguous(finding: Finding, call: Any, universe: Universe) -> bool:
    methods(call)
    tried = islice(calls_of(finding, call, universe), TRIES)
    wanted = plum.AmbiguousLookupError
    return any(outcome(call._resolver, each) is wanted for each in tried)


def is_latent(finding: Finding, call: Any, universe: Universe) -> bool:
    """Make the missing classes, and let plum resolve a call with them."""
    first, second = (located(call, info)[0].signature for info in finding.methods)
    pairs = zip(first.types, second.types, strict=True)
    types = []
    for a, b in pairs:
        both = [c for c in (a, b) if not (c is a and derives(b, a) and a is not b)]
        types.append(both[0] if len(set(both)) == 1 else type("Both", (a, b), {}))
    wanted = plum.AmbiguousLookupError
    return outcome(call._resolver, plum.Signature(*types)) is wanted


def is_overwritten(finding: Finding, call: Any, universe: Universe) -> bool:
    """Look for a method of the later place for every signature of the earlier one."""
    earlier, later = finding.methods
    new = alike(call, later)
    # plum forgets a replaced method, but not that it was registered.
    if (earlier.module, earlier.line) == (later.module, later.line):
        return len(new) == 1 and registrations(call, new[0]) > 1
    # With another precedence plum keeps both.
    old = [m.signature for m in alike(call, earlier)]
    return bool(new) and all(outcome(call._resolver, each) in new for each in old)


def alike(call: Any, info: MethodInfo) -> list[Any]:
    """Return plum's methods at the place of a method and with its types."""
    return [m for m in located(call, info) if texts(m.signature) == info.types]


def texts(signature: plum.Signature) -> tuple[str, ...]:
    extra = (signature.varargs,) if signature.has_varargs else ()
    return tuple(str(hint(kind)) for kind in (*signature.types, *extra))


def registrations(call: Any, method: Any) -> int:
    """Count the registrations of functions at the place of a method for its types."""
    found = 0
    for implementation, signature, _ in call._resolved:
        given = signature or plum.Signature.from_callable(implementation)
        bare = plum.Method(implementation, given)
        same = place(bare) == place(method)
        found += same and texts(given) == texts(method.signature)
    return found


def is_dead(finding: Finding, call: Any, universe: Universe) -> bool:
    """Resolve all calls that fit the method; none runs it."""
    (info,) = finding.methods
    own = [m for m in located(call, info) if len(m.signature.types) == len(info.types)]
    for method in own:
        fitting = [
            [c for c in universe.types if plum.Signature(c) <= plum.Signature(kind)]
            for kind in method.signature.types
        ]
        for types in islice(product(*fitting), TRIES):
            if outcome(call._resolver, plum.Signature(*types)) is method:
                return False
    return bool(own)


def is_pirate(finding: Finding, call: Any, universe: Universe) -> bool:
    """Compare the installed distributions of the files that define everything."""
    (info,) = finding.methods
    stranger = distribution(info.module)
    own = [
        kind
        for method in located(call, info)
        for kind in method.signature.types
        if {distribution(c.__module__) for c in hint(kind).members} == {stranger}
    ]
    return stranger != distribution(call.__module__) and not own


@cache
def owners() -> dict[str, str]:
    """Return the distribution of each installed top-level name, by its files."""
    found = {}
    for each in metadata.distributions():
        # The text itself, because `files` makes an object for each of 100,000 files.
        for line in (each.read_text("RECORD") or "").splitlines():
            path = line.partition(",")[0]
            if path.endswith((".py", ".so")):
                top = path.partition("/")[0].removesuffix(".py")
                if top not in found:
                    found[top] = str(each.metadata["Name"])
    return found


def distribution(module: str) -> str:
    top = module.partition(".")[0]
    return owners().get(top, top)


def is_unfaithful(finding: Finding, call: Any, universe: Universe) -> bool:
    (info,) = finding.methods
    slow = [m for m in located(call, info) if not m.signature.is_faithful]
    return bool(slow) and not call._resolver.is_faithful


def is_unstable(finding: Finding, call: Any, universe: Universe) -> bool:
    """Register the methods in other orders, and compare plum's answers."""
    places = {(info.module, info.line) for info in finding.methods}
    found = [m for m in methods(call) if place(m) in places]
    for each in islice(calls_of(finding, call, universe), 64):
        orders = islice(permutations(found), 720)
        ended = {str(outcome(resolver(order), each)) for order in orders}
        if len(ended) > 1:
            return True
    return False


def has_twin(finding: Finding, call: Any, universe: Universe) -> bool:
    """Look for two classes of the name in the memory of the process."""
    name = finding.message.rpartition(" ")[2]
    # `type(c)`: isinstance would ask a weak proxy whose object is gone.
    every = [c for c in gc.get_objects() if issubclass(type(c), type)]
    found = [c for c in every if f"{c.__module__}.{c.__qualname__}" == name]
    # beartype's stand-in for a text annotation is not a class of its own.
    return sum(referent(c) is c for c in found) > 1


def is_unreadable(finding: Finding, call: Any, universe: Universe) -> bool:
    try:
        found = methods(call)
        # beartype puts off a name that it cannot find until it compares a value.
        for method in found:
            method.signature.match((None,) * len(method.signature.types))
    # Reading annotations runs code of the package.
    except Exception:
        return True
    return False


def converts(finding: Finding, call: Any, universe: Universe) -> bool:
    (info,) = finding.methods
    return any(m.return_type is not Any for m in located(call, info))


def is_decided(finding: Finding, call: Any, universe: Universe) -> bool:
    """Resolve the call twice: with precedences it works, without it is ambiguous."""
    plain = resolver(methods(call), plain=True)
    places = {(info.module, info.line) for info in finding.methods}
    for each in islice(calls_of(finding, call, universe), TRIES):
        chosen = outcome(call._resolver, each)
        runs = isinstance(chosen, plum.Method) and place(chosen) in places
        if runs and outcome(plain, each) is plum.AmbiguousLookupError:
            return True
    return False


def is_open(finding: Finding, call: Any, universe: Universe) -> bool:
    """Compare the parameters with the methods that plum made of them."""
    (info,) = finding.methods
    found = located(call, info)
    if not found:
        return False
    parameters = inspect.signature(inspect.unwrap(found[0].implementation)).parameters
    counts = {len(m.signature.types) for m in found}
    for each in parameters.values():
        is_listed = f"{each.name} has no annotation" in finding.message
        if is_listed and each.annotation is not inspect.Parameter.empty:
            return False
        if f"{each.name} has a default" in finding.message and len(counts) == 1:
            return False
    return True


def ignores_keywords(finding: Finding, call: Any, universe: Universe) -> bool:
    """Check that plum runs the later method, which lacks a keyword of the other."""
    return is_overwritten(finding, call, universe)


Check = Callable[[Finding, Any, Universe], bool]
CHECKS: dict[str, Check] = {
    "MDT001": is_ambiguous,
    "MDT002": is_latent,
    "MDT003": is_overwritten,
    "MDT004": is_dead,
    "MDT005": is_pirate,
    "MDT006": is_unfaithful,
    "MDT007": is_unstable,
    "MDT008": has_twin,
    "MDT009": is_unreadable,
    "MDT010": converts,
    "MDT011": is_decided,
    "MDT013": is_open,
    "MDT014": ignores_keywords,
}


def unconfirmed(
    findings: Sequence[Finding], sources: Sequence[Source], universe: Universe
) -> list[Finding]:
    """Return the findings that plum does not confirm."""
    return [f for f in findings if not confirmed(f, sources, universe)]
