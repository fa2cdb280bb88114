"""The methods of an operation: added, replaced, removed, or imported later."""

from __future__ import annotations

import threading
from abc import get_cache_token
from collections.abc import Iterable
from typing import ClassVar

from mdtensor.dispatch.declaration import Described
from mdtensor.dispatch.later import import_methods
from mdtensor.dispatch.method import (
    Implementation,
    Method,
    refuse_frozen,
    refuse_misfit,
)
from mdtensor.errors import RegistrationError
from mdtensor.reloading import is_reload


class MethodSet(Described):
    """The part of an operation that holds its methods, one for each signature."""

    #: How often the methods of any operation changed; compiled functions look at it.
    changes: ClassVar[int] = 0

    def __init__(self) -> None:
        #: If set, nobody adds or removes methods.
        self.frozen = False
        #: Modules with methods that are not imported yet, see `later`.
        self.later: tuple[str, ...] = ()
        #: The modules that added the methods.
        self.homes: dict[Implementation, object] = {}
        self._methods: dict[Implementation, Method] = {}
        # Those that may accept further classes, which `ABC.register` names.
        self._open_methods: tuple[Method, ...] = ()
        # `ABC.register` changes the token, and with it what classes fit.
        self._token = get_cache_token()
        # Reentrant: `implementation` holds the lock while `select` takes it again.
        self.lock = threading.RLock()

    @property
    def methods(self) -> tuple[Method, ...]:
        import_methods(self)
        return self.known_methods

    @property
    def known_methods(self) -> tuple[Method, ...]:
        """Return the methods whose modules are imported."""
        return tuple(self._methods.values())

    def import_later(self, module: str) -> None:
        """Import `module`, which has methods, when the methods are next looked at."""
        with self.lock:
            refuse_frozen(self, module)
            self.later += (module,)
            MethodSet.changes += 1
            # At the import of mdtensor nothing was called yet.
            if self._methods or self.has_entries:
                self._forget()

    def add_method(self, new: Method, override: bool, module: object = None) -> None:
        """Add a method; with `override` it replaces one with the same signature.

        Args:
            module: the name of the module that adds it.
        """
        # Of the modules that are imported later, none waits for the others.
        if module not in self.later:
            import_methods(self)
        with self.lock:
            refuse_frozen(self, new)
            refuse_misfit(self, new)
            for known in list(self._methods.values()):
                if known.is_like(new):
                    self._replace(known, new, override)
            self._methods[new.implementation] = new
            self.homes[new.implementation] = module
            self._forget()

    def _replace(self, known: Method, new: Method, override: bool) -> None:
        if not (override or is_reload(known.origin, new.origin)):
            raise RegistrationError(
                f"method {new} at {new.location} has the same signature as the method "
                f"at {known.location}",
                "Pass override=True to replace it",
            )
        self.remove_method(known)

    def remove_method(self, known: Method) -> None:
        """Remove a method; later calls select among the others."""
        refuse_frozen(self, known)
        self.set_methods(other for other in self.methods if other is not known)

    def set_methods(self, methods: Iterable[Method]) -> None:
        """Replace all methods by these, which are not checked."""
        with self.lock:
            self.later = ()
            # Not checked again: they come from this operation.
            self._methods = {new.implementation: new for new in methods}
            self._forget()

    def _forget(self) -> None:
        # Nobody has relied on the methods before all were imported.
        MethodSet.changes += not self.later
        self._open_methods = tuple(m for m in self._methods.values() if m.is_open)
        self._token = get_cache_token()
        self.forget_selections()

    @property
    def has_entries(self) -> bool:
        """Return whether a call table has an entry, with or without a method."""
        raise NotImplementedError

    def forget_selections(self) -> None:
        """Make the next calls select their methods again, since these changed."""
        raise NotImplementedError
