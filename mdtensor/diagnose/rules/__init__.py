"""The rules of the checker, in the order of their ids."""

from __future__ import annotations

from mdtensor.diagnose.rules import (
    ambiguous,
    annotation,
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
)
from mdtensor.diagnose.study import Rule

RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in (
        ambiguous.RULE,
        latent.RULE,
        overwritten.RULE,
        dead.RULE,
        piracy.RULE,
        annotation.UNFAITHFUL,
        registration.RULE,
        homonyms.RULE,
        annotation.UNRESOLVABLE,
        annotation.RETURN,
        precedence.RULE,
        holes.RULE,
        parameters.RULE,
        keywords.RULE,
    )
}
