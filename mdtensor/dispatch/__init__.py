"""Multiple dispatch: operations, their methods, and the choice among them.

Imports run downwards: declaration <- checks, call <- method <- operation <- builder,
introspect <- catalog. Only this package and the errors import plum.
"""

from mdtensor.dispatch.operation import (
    Generic as Generic,
    Operation as Operation,
    generic as generic,
    method as method,
    operations as operations,
)
