"""What `explain` says is what happens: a call of every operation, as it is traced."""

from contextlib import suppress
from inspect import Parameter
from itertools import islice
from random import Random

import pytest
from support.samples import call, sample

import mdtensor as md
from mdtensor import diagnose
from mdtensor.diagnose.report import study_of
from mdtensor.diagnose.universe import SCALARS

OURS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
FUNCTIONS = {function.operation: function for function in OURS}


def test_explain_is_what_a_traced_run_records():
    seen = set()
    for function in OURS:
        arguments, options = sample(function)
        with md.traced() as calls:
            call(function, arguments, options)
        assert calls[0].selection.operation is function.operation
        for traced in calls:
            asked = FUNCTIONS[traced.selection.operation]
            said = diagnose.explain(asked, *traced.types)
            assert said.winner is not None
            assert said.winner.location == traced.location
            assert said.rows[0].reason == "chosen"
            seen.add(asked)
    assert seen == set(OURS)


def hollow(kind):
    """Something of just this class; of a tensor not even the elements."""
    return None if kind is type(None) else kind.__new__(kind)


def recorded(calls, function, types):
    """Where the method stands that a call with `types` runs; None if there is none.

    The arguments are good for nothing but to be dispatched on, so that whatever the
    method then makes of them does not matter.
    """
    arguments = [hollow(kind) for kind in types]
    arguments = [arguments] if function.operation.sequence else arguments
    options = function.operation.options.items()
    needed = {name: None for name, default in options if default is Parameter.empty}
    calls.clear()
    with suppress(Exception):
        function(*arguments, **needed)
    if not calls:
        return None
    assert calls[0].selection.operation is function.operation
    assert calls[0].types[: len(types)] == types
    return calls[0].location


def required(operation):
    """How many arguments have no default; all of a sequence."""
    given = operation.signature.parameters
    needed = [n for n in operation.dispatched if given[n].default is Parameter.empty]
    return None if operation.sequence else len(needed)


def drawn(found, table, random):
    """Types of every method, also without defaults, of each leaf alike, any others."""
    given = [*md.leaves(), *SCALARS, str]
    for _, cells, _ in table.answers:
        yield cells.witness
        yield tuple(islice(cells.witness, required(found.operation)))
    yield from ((leaf,) * table.arity for leaf in md.leaves() if leaf.device is md.cpu)
    yield from (tuple(random.choices(given, k=table.arity)) for _ in range(12))


@pytest.mark.long
def test_explain_is_what_is_traced_for_every_method_and_type(monkeypatch):
    monkeypatch.delattr(md.Tensor, "__getattr__")  # no search for the closest names
    random, ran, refused, seen = Random(5), 0, 0, set()
    study = study_of(OURS)
    with md.traced() as calls:
        for found, table in study.each_table():
            for types in drawn(found.call, table, random):
                said = diagnose.explain(found.call, *types).winner
                traced = recorded(calls, found.call, types)
                assert traced == (said and said.location), (found, types)
                ran, refused = ran + bool(traced), refused + (not traced)
                seen.add((found.name, said))
    methods = {(f.name, m) for f in study.sources for m in diagnose.methods(f.call)}
    assert methods <= seen and ran > 2000 and refused > 2000
