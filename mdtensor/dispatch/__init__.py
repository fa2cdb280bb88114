"""Generic functions and their methods, chosen by the types of all arguments.

Imports run downwards: declaration <- checks, call <- method <- operation <- builder,
introspect <- catalog. This package alone names plum.
"""

from mdtensor.dispatch.operation import (
    Generic as Generic,
    Operation as Operation,
    generic as generic,
    method as method,
    operations as operations,
)
