"""Where a method stands, as a reader on this machine or a service finds it."""

import sys
from pathlib import Path

from mdtensor.diagnose import Finding, MethodInfo


def path_of(method: MethodInfo) -> str:
    """The file from the folder we stand in, or `package/file.py` if it is elsewhere."""
    module = sys.modules.get(method.module)
    name = getattr(module, "__file__", None)
    if name is None:
        return method.file
    path, here = Path(name).resolve(), Path.cwd().resolve()
    return path.relative_to(here).as_posix() if here in path.parents else method.file


def anchor(finding: Finding) -> MethodInfo | None:
    """The method that a finding is shown at: one of who registered the latest."""
    later = [m for m in finding.methods if m.distribution == finding.distribution]
    known = later or finding.methods
    return known[-1] if known else None
