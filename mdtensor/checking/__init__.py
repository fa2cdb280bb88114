"""Checked arithmetic: what calls lose without saying so, by operation and line.

    with md.checked() as log:
        total = codes + codes          # int8, which wraps
    print(log)                         # script.py:2  add(Int8Tensor, Int8Tensor): ...

log      what is written down, and how it reads
audits   which operation is asked what; others add theirs with `audit`
block    `checked`: the `with` block
integers, casts   the audits of dense tensors
"""

from mdtensor.checking import audits as _casts, audits as _integers
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

del _casts, _integers  # their audits are in force
__all__ = ["Case", "Entry", "Headroom", "Log", "Lost", "audit", "checked", "counting"]
__all__ += ["is_checked"]
