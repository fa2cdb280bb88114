"""Is the table of methods sound, what runs for these types, and why."""

from __future__ import annotations

from mdtensor.diagnose.contracts import Contract as Contract, contract as contract
from mdtensor.diagnose.finding import (
    Finding as Finding,
    MethodInfo as MethodInfo,
    Relation as Relation,
)
from mdtensor.diagnose.report import (
    Report as Report,
    analyze as analyze,
    rule as rule,
    rules as rules,
)
from mdtensor.diagnose.rule import Rule as Rule
