"""The rules of the checker, one a file, in the order of their ids."""

from __future__ import annotations

from mdtensor.diagnose.rule import Rule
from mdtensor.diagnose.rules import (
    ambiguous,
    dead,
    holes,
    homonyms,
    keywords,
    latent,
    overwritten,
    parameters,
    piracy,
    precedence,
    registration,
    returns,
    unfaithful,
    unresolvable,
)

RULES: dict[str, Rule] = {
    hazard.RULE.id: hazard.RULE
    for hazard in (
        ambiguous,
        latent,
        overwritten,
        dead,
        piracy,
        unfaithful,
        registration,
        homonyms,
        unresolvable,
        returns,
        precedence,
        holes,
        parameters,
        keywords,
    )
}
