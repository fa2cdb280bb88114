"""Is the table of methods sound, what runs for these types, and why.

    report = analyze()                        # every hazard, with the header that mends
    print(explain(add, Int8Tensor, int))      # what runs, and why nothing else does

The arrows inside: hints <- source <- spelling, universe, contracts <- table <- resolve
<- study <- finding <- rule <- rules <- report <- questions, covering, freezing.
"""

from __future__ import annotations

from mdtensor.diagnose.contracts import Contract as Contract, contract as contract
from mdtensor.diagnose.covering import (
    Coverage as Coverage,
    Share as Share,
    coverage as coverage,
    plan as plan,
)
from mdtensor.diagnose.explain import (
    explain as explain,
    methods as methods,
    methods_with as methods_with,
    suggest as suggest,
    which as which,
)
from mdtensor.diagnose.explanation import (
    Explanation as Explanation,
    Row as Row,
    Suggestion as Suggestion,
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
