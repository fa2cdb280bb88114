"""Diagnostics: check the methods of functions, and explain which method runs.

    report = analyze()                    # every hazard, with the method that mends it
    print(explain(add, Int8Tensor, int))  # which method runs, and why no other does

A module imports only modules to the left of it: hints <- source <- universe <- table <-
fixes <- study, finding <- rule <- rules <- report <- explain, freeze.
"""

from __future__ import annotations

from mdtensor.diagnose.explain import (
    Coverage as Coverage,
    Explanation as Explanation,
    Row as Row,
    Share as Share,
    Suggestion as Suggestion,
    coverage as coverage,
    explain as explain,
    methods as methods,
    methods_with as methods_with,
    plan as plan,
    suggest as suggest,
    which as which,
)
from mdtensor.diagnose.finding import (
    Finding as Finding,
    MethodInfo as MethodInfo,
    Relation as Relation,
)
from mdtensor.diagnose.freeze import freeze as freeze, late as late, thaw as thaw
from mdtensor.diagnose.report import (
    Report as Report,
    analyze as analyze,
    rule as rule,
    rules as rules,
)
from mdtensor.diagnose.rule import Rule as Rule
from mdtensor.diagnose.study import Contract as Contract, contract as contract
