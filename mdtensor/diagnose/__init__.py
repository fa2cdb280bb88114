"""Is the table of methods sound, what runs for these types, and why.

    report = analyze()                        # every hazard, with the header that mends
    print(explain(add, Int8Tensor, int))      # what runs, and why nothing else does

The arrows inside: hints <- source <- spelling, universe, contracts <- table <- resolve
<- study <- finding <- rule <- rules <- report <- questions, covering, freezing.
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
