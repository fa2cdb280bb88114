"""Compiled loops over users' functions, on disk."""

import hashlib
import logging
import os
import re

from mdtensor.kernels.cpu import jit
from mdtensor.kernels.cpu.user.identity import content

#: Files of loops begin with this word, so that they are counted apart.
PREFIX = "user-"
#: A program that makes new functions all the time must not fill the disk.
MOST_FILES = 1024
_log = logging.getLogger(__name__)


# numba's own cache would run stale code after a global value changed (decision 0059).
class LoopCache(jit.KernelCache):
    """Files of one loop, named by the content of the user's function."""

    def __init__(self, function, key):
        super().__init__(function)
        plain = re.sub(r"\W", "", function.__name__, flags=re.ASCII)
        self._stem = f"{PREFIX}{plain[:40] or 'function'}"
        self._content = key

    @classmethod
    def of(cls, function, described):
        """Return the cache of a loop, or None if bytes do not describe the function.

        Args:
            described: the form of the loop and the kinds of its arguments.
        """
        key = content(function)
        return None if key is None else cls(function, key + repr(described).encode())

    def key(self, signature, codegen):
        """Return text that names this loop for `signature` on this CPU."""
        rest = repr((str(signature), codegen.magic_tuple())).encode()
        return f"{self._stem}-{hashlib.sha256(self._content + rest).hexdigest()[:24]}"

    def holds(self, signature, codegen):
        """Return whether there is a file for `signature`."""
        name = self._file_name(signature, codegen)
        # `Path.is_file` raises for a folder that this user may not enter.
        files = (folder / name for folder in jit.read_folders())
        return any(map(os.path.isfile, files))

    def load_overload(self, sig, target_context):
        """Return the cached code of a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        # The code may need a module that this process cannot import.
        except Exception as error:
            _log.info("a loop was compiled again, because %s", error)
            return None

    def save_overload(self, sig, data):
        """Write the code of a signature; delete the oldest loops above the limit."""
        super().save_overload(sig, data)
        folder = jit.cache_folder()
        if folder is None:
            return
        try:
            files = sorted(folder.glob(f"{PREFIX}*"), key=lambda f: f.stat().st_mtime)
            for file in files[:-MOST_FILES]:
                file.unlink(missing_ok=True)
        except OSError:
            # Another process deletes as well.
            pass
