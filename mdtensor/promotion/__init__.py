"""Promotion: the common element type of the operands of a call.

There are seven rule sets. `default`, `strict` and `array_api` are lattices. `numpy`,
`jax` and `torch` are tables that reproduce these libraries, and `pypto` follows the
rule of PyPTO. Select one with `promotion_rules`; `docs/reference/promotion.md` shows
them all.
"""

from mdtensor.promotion.lattice import (
    DEFAULT as DEFAULT,
    DEFAULT_COMPLEX as DEFAULT_COMPLEX,
    DEFAULT_FLOAT as DEFAULT_FLOAT,
    DEFAULT_INTEGER as DEFAULT_INTEGER,
    RuleSet as RuleSet,
)
from mdtensor.promotion.promote import (
    RULE_SETS as RULE_SETS,
    add_type as add_type,
    can_cast as can_cast,
    current as current,
    fit_scalar as fit_scalar,
    is_weak as is_weak,
    may_overflow as may_overflow,
    overflows as overflows,
    promote_types as promote_types,
    promotion_rules as promotion_rules,
    result_type as result_type,
    round_to_odd as round_to_odd,
    wider_type as wider_type,
    with_scalar as with_scalar,
)
