"""Compilation by numba for another machine than this one.

numba asks LLVM which machine this is and compiles for that one, in memory. Here LLVM
gives another answer, before numba asks. What numba compiles is then code of that
machine, which nobody may call in this process.
"""

import platform

import llvmlite.binding as llvm
from llvmlite.binding import targets


# An optimizer that knows the target from the start makes code that another machine runs
# (decision 0078).
def compile_for(machine, triple):
    """Let numba compile for a machine, unless it is this one.

    Call it before the first kernel is imported, when numba asks.
    """
    if machine == platform.machine():
        return
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for module in (llvm, targets):
        module.get_process_triple = module.get_default_triple = lambda: triple
