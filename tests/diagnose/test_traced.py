"""What `explain` says is what happens: a call of every operation, as it is traced."""

from support.samples import call, sample

import mdtensor as md
from mdtensor import diagnose

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
