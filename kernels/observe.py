"""Observer of the kernels that calls run, for `traced` and `which`.

    with observed() as seen:
        ...                      # calls
    seen.kernels, seen.casts     # in the order in which they ran

Compiled kernels report themselves: after the call, the Python code that calls one has
`if observe.ACTIVE: observe.ran(name, isa)`. Kernels that run through `numpy/runtime.py`
are seen by its runner, which `observe_kernels` replaces, and the other NumPy kernels when
Python enters them. Outside of a block this costs compiled kernels one `if`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from threading import Lock
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from mdtensor.kernels.numpy import runtime

#: How many blocks observe now, in all threads. Kernels read it before they report.
ACTIVE = 0
_LOCK = Lock()
NUMPY = "NumPy"
#: They make an operand of a Python number, or ask about types alone.
_ABOUT_TYPES = frozenset(
    f"kernels.numpy.conversion.{name}" for name in ("element", "is_exact", "bounds")
)
#: Modules that prepare a call or hand it on: the function that they run is the kernel.
_HAND_ON = frozenset(
    f"mdtensor.kernels.{name}"
    for name in (
        *("observe", "rescale", "refusal", "cpu.compilation", "numpy.runtime"),
        *("numpy.ufunc", "numpy.float16", "numpy.layout", "numpy.threads"),
        "numpy.overflow",
    )
)

#: Folders of kernels/cpu that hold the kernels of one instruction set.
_ISA_FOLDERS = ("avx2", "dot8")
#: Modules whose `dtype` is the type that they ask about.
_TESTS_CASTS = frozenset({"mdtensor.kernels.numpy.conversion"})


class Kernel(NamedTuple):
    """A kernel that ran.

    Args:
        name: `gemm_u8s8s32`, `numpy.add` or `kernels.numpy.pool.max_pool2d`.
        isa: the instruction set, `avx2`; of NumPy's, as far as NumPy tells.
    """

    name: str
    isa: str

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel is compiled code of this package."""
        return not self.isa.startswith(NUMPY)


class Cast(NamedTuple):
    """A conversion of elements on the way to a kernel, or inside of it."""

    source: str
    target: str


class Observation:
    """What one block has observed so far."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.casts: list[Cast] = []
        self._inside: FrameType | None = None

    def add(self, kernel: Kernel) -> None:
        # NumPy functions that a NumPy kernel calls are its parts.
        is_part = self._inside is not None and not kernel.is_compiled
        if not is_part and kernel not in self.kernels:
            self.kernels.append(kernel)

    def cast(self, source: Any, target: Any) -> None:
        found = Cast(np.dtype(source).name, np.dtype(target).name)
        if found.source != found.target and found not in self.casts:
            self.casts.append(found)

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note the NumPy kernel that Python enters; called by `sys.setprofile`."""
        if event == "return" and frame is self._inside:
            self._inside = None
        if event != "call" or self._inside is not None or _SEEN.get() is not self:
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("mdtensor.kernels."):
            return
        if module in _HAND_ON or frame.f_code.co_name == "promoted":
            self._note_promotion(frame)
        elif not module.startswith("mdtensor.kernels.cpu."):
            name = f"{module.removeprefix('mdtensor.')}.{frame.f_code.co_qualname}"
            if "<" not in name and name not in _ABOUT_TYPES:
                self.add(Kernel(name, NUMPY))
                self._inside = frame
                if module not in _TESTS_CASTS:
                    self._note_operand_casts(frame.f_locals)

    def _note_operand_casts(self, known: dict[str, Any]) -> None:
        """Note the casts of a NumPy kernel that takes operands and their `dtype`."""
        dtype = known.get("dtype")
        if isinstance(dtype, np.dtype):
            for name, given in known.items():
                several = given if isinstance(given, (list, tuple)) else (given,)
                # A condition keeps its type.
                if name.startswith(("x", "arrays", "parts")):
                    for each in several:
                        if isinstance(each, np.ndarray):
                            self.cast(each.dtype, dtype)

    def _note_promotion(self, frame: FrameType) -> None:
        if frame.f_code.co_name == "promoted":
            known = frame.f_locals
            self.cast(known["x"].dtype, known["dtype"])

    def note_call(self, function: Any, arguments: Any, options: Any) -> None:
        """Note what `quietly(function, *arguments, **options)` runs."""
        if isinstance(function, np.ufunc):
            self._note_loop(function, arguments, options.get("dtype"))
            return
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if name == "astype" and isinstance(owner, np.ndarray):
            self.cast(owner.dtype, arguments[0])
        elif function is not np.asarray and name and "<" not in name:
            self.add(_kernel_of(function))

    def _note_loop(self, ufunc: np.ufunc, arguments: Any, dtype: Any) -> None:
        given = [x.dtype for x in arguments if isinstance(x, np.ndarray)]
        loop: list[Any] = [np.dtype(dtype)] * len(given) if dtype else given
        if not dtype and len(given) == ufunc.nin:
            with suppress(TypeError, ValueError):
                loop = [*ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))]
        for source, target in zip(given, loop, strict=False):
            self.cast(source, target)
        chars = "".join(each.char for each in loop[: ufunc.nin])
        self.add(Kernel(f"numpy.{ufunc.__name__}", _isa_of_loop(ufunc.__name__, chars)))


_SEEN: ContextVar[Observation | None] = ContextVar("seen", default=None)


def ran(name: str, isa: str) -> None:
    """Report that the compiled kernel `name` of the instruction set `isa` has run."""
    if (seen := _SEEN.get()) is not None:
        seen.add(Kernel(name, isa))


def spread(function: Any, *operands: Any) -> None:
    """Report a function of NumPy whose elements threads share."""
    if (seen := _SEEN.get()) is not None:
        seen.note_call(function, operands, {})


@contextmanager
def observe_kernels() -> Iterator[Observation]:
    """Observe the kernels that this context runs; an inner block keeps its own."""
    seen, run = Observation(), runtime.current()
    token = _SEEN.set(seen)
    runtime.replace(_recording(seen, run))
    before = sys.getprofile()
    # A foreign profiler stays: only what reports itself is seen then.
    is_free = before is None or isinstance(
        getattr(before, "__self__", None), Observation
    )
    _count(1)
    try:
        if is_free:
            sys.setprofile(seen.profile)
        yield seen
    finally:
        if is_free:
            sys.setprofile(before)
        _count(-1)
        runtime.replace(run)
        _SEEN.reset(token)


def _count(change: int) -> None:
    global ACTIVE
    with _LOCK:  # threads begin and end blocks of their own
        ACTIVE += change


def _recording(seen: Observation, run: Callable[..., Any]) -> Callable[..., Any]:
    def record(function: Any, *arguments: Any, **options: Any) -> Any:
        if _SEEN.get() is seen:
            seen.note_call(function, arguments, options)
        return run(function, *arguments, **options)

    return record


def _kernel_of(function: Any) -> Kernel:
    module = getattr(function, "__module__", None) or "numpy"
    path = module.split(".")
    if not module.startswith("mdtensor.kernels.cpu."):
        known = module.removeprefix("mdtensor.")
        return Kernel(f"{known}.{function.__name__}", NUMPY)
    return Kernel(
        function.__name__, path[-2] if path[-2] in _ISA_FOLDERS else "generic"
    )


@cache
def _isa_of_loop(name: str, chars: str) -> str:
    """Return the instruction set of a loop, as `numpy.lib.introspect` tells it."""
    tell = getattr(getattr(np.lib, "introspect", None), "opt_func_info", None)
    known = tell(func_name=f"^{name}$").get(name, {}) if tell else {}
    found = [info for loop, info in known.items() if loop.startswith(chars)]
    return f"{NUMPY} {found[0]['current'].split('(')[0]}" if found else NUMPY
