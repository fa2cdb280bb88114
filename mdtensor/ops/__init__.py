"""Methods of operations for dense tensors.

A family of operations has its methods in the module of the same name here, which is
imported when one of its operations is first asked.
"""

from collections.abc import Mapping

from mdtensor.dispatch.later import methods_later
from mdtensor.dispatch.operation import Generic
from mdtensor.errors import OptionError
from mdtensor.kernels import refusal

# Kernels cannot import our errors, so they raise this class for a wrong MDTENSOR_ISA.
refusal.error = OptionError


def name_methods(operations: Mapping[str, Generic]) -> None:
    """Name the modules that have the methods of mdtensor's own operations.

    Args:
        operations: operations by name; those of other packages are left out.
    """
    families: dict[str, list[Generic]] = {}
    for operation in operations.values():
        families.setdefault(operation.__module__, []).append(operation)
    for module, own in families.items():
        home, _, family = module.rpartition(".")
        if home == "mdtensor.generics":
            methods_later(f"{__name__}.{family}", *own)
