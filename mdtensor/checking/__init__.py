"""Checked arithmetic: counts silent losses of calls, by operation and source line.

    with md.checked() as log:
        total = codes + codes          # int8, which wraps
    print(log)                         # script.py:2  add(Int8Tensor, Int8Tensor): ...

audits    `Log`, the registry of audits and the audits of dense tensors; add your own
          with `audit`
checked   `checked`: the `with` block
"""

from mdtensor.checking.audits import (
    Case as Case,
    Entry as Entry,
    Headroom as Headroom,
    Log as Log,
    Lost as Lost,
    audit as audit,
)
from mdtensor.checking.checked import (
    checked as checked,
    counting as counting,
    is_checked as is_checked,
)

__all__ = ["Case", "Entry", "Headroom", "Log", "Lost", "audit", "checked", "counting"]
__all__ += ["is_checked"]
