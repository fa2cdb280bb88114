"""Random lattices of classes and random tables of methods, for plum and for us."""

import itertools
import typing
from random import Random

import plum


def lattice(random: Random, name: str) -> tuple[list[type], list[type]]:
    """Kinds and concrete classes, some with several parents, each of an own name."""
    top = type(f"{name}Top", (), {"__module__": "lattice"})
    kinds = [top]
    for at in range(random.randint(2, 4)):
        parent = random.choice(kinds)
        kinds.append(type(f"{name}Kind{at}", (parent,), {"__module__": "lattice"}))
    leaves = []
    for at in range(random.randint(2, 4)):
        parents = random.sample(kinds, random.choice((1, 1, 2, 3)))
        chosen = [k for k in parents if not any(_under(p, k) for p in parents)]
        try:
            leaf = type(f"{name}Leaf{at}", tuple(chosen), {"__module__": "lattice"})
        except TypeError:  # no linear order of the parents
            leaf = type(f"{name}Leaf{at}", (top,), {"__module__": "lattice"})
        leaves.append(leaf)
    return kinds, leaves


def _under(a: type, b: type) -> bool:
    return a is not b and issubclass(a, b)


def annotation(random: Random, kinds: list[type], leaves: list[type]) -> object:
    drawn = random.random()
    if drawn < 0.5:
        return random.choice(kinds)
    if drawn < 0.75:
        return random.choice(leaves)
    if drawn < 0.8:
        return random.choice((object, typing.Any, None))
    size = min(len(kinds) + len(leaves), random.choice((2, 2, 3)))
    return typing.Union[tuple(random.sample([*kinds, *leaves], size))]


def table(
    random: Random,
    name: str,
    *,
    arities: tuple[int, ...] = (1, 2, 3, 4),
    precedence: bool = False,
    varargs: bool = False,
) -> tuple[plum.Function, list[type]]:
    """A function of plum with random methods, and its universe."""
    kinds, leaves = lattice(random, name)
    dispatch = plum.Dispatcher()
    arity = random.choice(arities)
    seen: dict[tuple, None] = {}
    signatures = []
    for _ in range(random.randint(2, 9)):
        count = max(0, arity - random.choice((0, 0, 1))) if varargs else arity
        types = tuple(annotation(random, kinds, leaves) for _ in range(count))
        extra = varargs and random.random() < 0.5
        rest = annotation(random, kinds, leaves) if extra else None
        # plum is known to be wrong for equal types of unequal precedence: MDT003.
        key = (tuple(plum_key(t) for t in types), extra and plum_key(rest))
        if key in seen:
            continue
        seen[key] = None
        more = {"varargs": rest} if extra else {}
        level = random.choice((0, 0, 1, 2)) if precedence else 0
        signatures.append(plum.Signature(*types, precedence=level, **more))
    function = registered(dispatch, signatures)
    return function, [*leaves, type(None)]


def plum_key(hint: object) -> object:
    """Equal for annotations that plum calls equal."""
    members = typing.get_args(hint) or (hint,)
    members = {type(None) if m is None else m for m in members}
    kept = {m for m in members if not any(n is not m and _below(m, n) for n in members)}
    return frozenset(kept)


def _below(a: object, b: object) -> bool:
    if a is typing.Any or b is typing.Any:
        return b is typing.Any
    return issubclass(a, b)


def registered(dispatch: plum.Dispatcher, signatures: list) -> plum.Function:
    """A function with one method for each signature."""

    def call(*arguments): ...

    function = dispatch.abstract(call)
    for signature in signatures:
        function.register(method(signature), signature=signature)
    return function


def method(signature: plum.Signature):
    """A method that says which one it is."""
    count = len(signature.types)
    names = [f"x{at}" for at in range(count)]
    if signature.has_varargs:
        names.append("*rest")
    namespace: dict = {"__name__": "lattice"}
    exec(f"def call({', '.join(names)}): ...", namespace)
    return namespace["call"]


def answer(function: plum.Function, types: tuple[type, ...]) -> object:
    """What plum itself says: the implementation, those that tie, or None."""
    function._resolve_pending_registrations()
    try:
        return function._resolver.resolve(plum.Signature(*types)).implementation
    except plum.AmbiguousLookupError as error:
        return frozenset(m.implementation for m in error.methods)
    except plum.NotFoundLookupError:
        return None


def tuples(universe: list[type], arity: int):
    return itertools.product(universe, repeat=arity)
