"""What element types become when they meet: rules over types, no tensors.

`default`, `strict` and `array_api` are lattices, `numpy`, `jax` and `torch` tables of
what their owners do, `pypto` is the rule of its owner; `promotion_rules` chooses one,
and `docs/reference/promotion.md` shows them all.
"""

from mdtensor.promotion.current import (
    RULE_SETS as RULE_SETS,
    current as current,
    promotion_rules as promotion_rules,
)
from mdtensor.promotion.lattice import (
    DEFAULT as DEFAULT,
    DEFAULT_COMPLEX as DEFAULT_COMPLEX,
    DEFAULT_FLOAT as DEFAULT_FLOAT,
    DEFAULT_INTEGER as DEFAULT_INTEGER,
)
from mdtensor.promotion.promote import (
    add_type as add_type,
    can_cast as can_cast,
    is_weak as is_weak,
    promote_types as promote_types,
    result_type as result_type,
    with_scalar as with_scalar,
)
from mdtensor.promotion.ruleset import RuleSet as RuleSet
from mdtensor.promotion.scalars import fit_scalar as fit_scalar, shortened as shortened
