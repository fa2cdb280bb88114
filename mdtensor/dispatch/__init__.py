"""Multiple dispatch: operations, their methods, and the choice among them.

A module imports only modules to the left of it: declaration, call <- checks <- later,
method <- operation <- builder <- catalog <- introspect. Modules between two arrows do
not import each other. Only this package and the errors import plum.
"""

from mdtensor.dispatch.operation import (
    Generic as Generic,
    Operation as Operation,
    generic as generic,
    method as method,
    operations as operations,
)
