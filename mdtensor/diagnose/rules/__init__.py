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
from mdtensor.errors import OptionError, shown

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


def rules() -> tuple[Rule, ...]:
    """Return all rules, sorted by id."""
    return tuple(RULES.values())


def rule(name: str) -> Rule:
    """Return the rule with an id; it prints as its explanation.

    Raises:
        OptionError: no rule has the id.

    Example:
        >>> rule("MDT001").title
        'ambiguous call'

    Source: rustc, `--explain`.
    """
    found = RULES.get(name.upper()) if isinstance(name, str) else None
    if found is None:
        raise OptionError(f"no rule {shown(name)}", f"There are {', '.join(RULES)}")
    return found
