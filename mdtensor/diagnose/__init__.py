"""Diagnostics: check the methods of functions, and explain which method runs.

    report = analyze()                    # every hazard, with the method that mends it
    print(explain(add, Int8Tensor, int))  # which method runs, and why no other does

A module imports only modules to the left of it: hints <- source, values <- finding,
universe <- table <- fixes <- study <- rules <- report <- explain, freeze;
finding <- patches.
"""

from __future__ import annotations

from mdtensor.diagnose.coverage import (
    Coverage as Coverage,
    Share as Share,
    coverage as coverage,
)
from mdtensor.diagnose.explain import (
    Explanation as Explanation,
    Row as Row,
    Suggestion as Suggestion,
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
)
from mdtensor.diagnose.rules import rule as rule, rules as rules
from mdtensor.diagnose.study import (
    Contract as Contract,
    Rule as Rule,
    contract as contract,
)
