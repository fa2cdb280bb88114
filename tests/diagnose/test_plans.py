"""Every proposed method, defined from the text that is printed, works in plum."""

import typing
from random import Random

import plum
import pytest
from diagnose.lattices import answer, method, table, tuples

from mdtensor.diagnose import analyze, plan, suggest


def define(function, source, classes):
    """Run what a finding proposes, in a namespace that has the classes."""
    names = {cls.__name__: cls for cls in classes} | {"None": None}
    namespace = {**names, "Union": typing.Union, "Any": typing.Any}
    namespace["dispatch"] = function.dispatch
    exec(source, namespace)


def known(universe):
    """The classes of a universe, and all others of their lattice."""
    found, left = set(universe), [universe[0].__mro__[-2]]
    while left:
        found.add(left[-1])
        left += type.__subclasses__(left.pop())
    return found


def ambiguous(function, universe, arity):
    """The tuples that plum cannot decide."""
    function._resolve_pending_registrations()
    return {
        types
        for types in tuples(universe, arity)
        if isinstance(answer(function, types), frozenset)
    }


def check(random, name, **options):
    """Whether there was something to mend; fails if the mending does not work."""
    function, universe = table(random, name, **options)
    found = analyze(function, universe).of("MDT001")
    if not found:
        return False
    before = {tuple(f.witness) for f in found}
    arities = {len(witness) for witness in before}
    for finding in found:
        assert "@dispatch\ndef call(" in finding.fix, finding
    counts = {arity: len(ambiguous(function, universe, arity)) for arity in arities}
    assert sum(f.count for f in found) == sum(counts.values())
    (headers,) = plan(function, universe).values()
    assert len(set(headers)) == len(headers) > 0
    for source in headers:
        define(function, f"@dispatch\n{source}", known(universe))
    for arity in arities:
        assert ambiguous(function, universe, arity) == set(), finding
    assert analyze(function, universe).of("MDT001") == ()
    return True


def single(random, name):
    """One fix alone mends its own witness, whatever it does elsewhere."""
    function, universe = table(random, name, arities=(2, 3))
    found = analyze(function, universe).of("MDT001")
    for finding in found[:1]:
        names = {cls.__name__: cls for cls in universe} | {"None": type(None)}
        types = tuple(names[name] for name in finding.witness)
        assert isinstance(answer(function, types), frozenset)
        define(function, finding.fix, known(universe))
        assert not isinstance(answer(function, types), frozenset)
    return bool(found)


@pytest.mark.parametrize("options", [{}, {"precedence": True}], ids=["plain", "tiers"])
def test_plans_leave_no_ambiguity(options):
    random = Random(7)
    options = {"arities": (1, 2, 3), **options}
    assert sum(check(random, f"P{at}", **options) for at in range(80)) > 15


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"precedence": True}], ids=["plain", "tiers"])
def test_plans_leave_no_ambiguity_at_length(options):
    random = Random(8)
    assert sum(check(random, f"Q{at}", **options) for at in range(1500)) > 300


def test_each_fix_mends_its_witness():
    random = Random(9)
    assert sum(single(random, f"R{at}") for at in range(150)) > 40


class A: ...


class B: ...


class AB(A, B): ...


def test_three_that_tie_need_the_meets_of_pairs_and_of_all():
    dispatch = plum.Dispatcher()

    for kinds in ((A, object, object), (object, A, object), (object, object, A)):
        put = dispatch.multi(kinds)(method(plum.Signature(*kinds)))

    (headers,) = plan(put, [A, B]).values()
    assert len(headers) == 4


def test_the_meet_of_classes_side_by_side_is_what_derives_from_both():
    dispatch = plum.Dispatcher()
    for kind in (A, B):
        put = dispatch.multi((kind,))(method(plum.Signature(kind)))
    (finding,) = analyze(put, [A, B, AB]).of("MDT001")
    bring = f"from {__name__} import AB"
    assert finding.fix == f"{bring}\n@dispatch\ndef call(x0: AB): ..."


def test_calls_are_counted_once_over_all_numbers_of_arguments():
    dispatch = plum.Dispatcher()
    for kind in (A, B):
        signature = plum.Signature(varargs=kind)
        put = dispatch.multi(signature)(method(signature))
    (finding,) = analyze(put, [A, B, AB]).of("MDT001")
    # put(), put(AB), put(AB, AB), of 1, 3 and 9
    assert (finding.count, finding.total) == (3, 13)
    assert (finding.witness, finding.fix) == ((), "@dispatch\ndef call(): ...")


def test_suggest_adds_what_is_missing():
    dispatch = plum.Dispatcher()

    @dispatch
    def put(x: A, y: A): ...

    said = suggest(put, A, B)
    assert (said.problem, said.header) == ("missing", "def put(x: A, y: B): ...")
    define(put, f"@dispatch\n{said.header}", [A, B])
    assert suggest(put, A, B).problem == "works"
    assert str(suggest(put, A, B)) == "put(A, B): works"
