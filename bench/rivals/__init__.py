"""What users would pick instead of mdtensor, written as its friends would write it.

Every way dispatches among the same kernels: one for each of ten element types, which
says its name, so that a wrong choice shows. A pair of different types has no kernel,
and is refused. All of them take the same unused `out=None`.
"""

from bench.rivals.kernels import KERNELS, NAMES, Kernel
from bench.rivals.way import Way, check_ways

__all__ = ["KERNELS", "NAMES", "Kernel", "Way", "check_ways"]
