"""Observer of the kernels that calls run, for `traced` and `which`.

    with observe_kernels() as seen:
        ...                      # calls
    seen.kernels, seen.casts     # in the order in which they ran

Compiled kernels report themselves: after the call, the Python code that calls one runs
`if observe.ACTIVE: observe.ran(name, isa)`. Kernels that run through
`numpy/__init__.py` are seen by its runner, which `observe_kernels` replaces. The other
NumPy kernels are seen when Python enters them. Without a block, this costs compiled
kernels one `if`.
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
import numpy.typing as npt

from mdtensor.kernels import numpy as numpy_kernels

#: Number of blocks that observe now, in all threads; kernels read it before a report.
ACTIVE = 0
_LOCK = Lock()
NUMPY = "NumPy"
#: Functions that convert a Python number to an operand, or look at types only.
_ABOUT_TYPES = frozenset(
    f"kernels.numpy.conversion.{name}" for name in ("element", "is_exact", "bounds")
)
#: Modules that prepare or forward a call: the function that they run is the kernel.
_FORWARDING = frozenset(
    f"mdtensor.kernels.{name}"
    for name in (
        *("observe", "rescale", "refusal", "cpu.compilation", "numpy"),
        *("numpy.ufunc", "numpy.float16", "numpy.float32", "numpy.layout"),
        "numpy.threads",
        "numpy.overflow",
    )
)

#: Packages that write, compile and load kernels: whoever starts one reports it.
_MAKERS = tuple(f"mdtensor.kernels.{name}." for name in ("loops", "emulated", "native"))

#: Folders of kernels/cpu that hold the kernels of one instruction set.
_ISA_FOLDERS = ("avx2", "dot8")
#: Modules whose parameter `dtype` is a type to test, not a type to cast to.
_TESTS_CASTS = frozenset({"mdtensor.kernels.numpy.conversion"})


class Kernel(NamedTuple):
    """A kernel that ran.

    Args:
        name: `gemm_u8s8s32`, `numpy.add` or `kernels.numpy.pool.max_pool2d`.
        isa: the instruction set, such as `avx2`; `NumPy` and, if NumPy reports it, the
            instruction set of its loop.
    """

    name: str
    isa: str

    @property
    def is_compiled(self) -> bool:
        """Return whether the kernel is compiled code of this package."""
        return not self.isa.startswith(NUMPY)


class Cast(NamedTuple):
    """A conversion of elements on the way to a kernel, or inside of it."""

    source: str
    target: str


class Observation:
    """The kernels and casts that one block has observed so far."""

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.casts: list[Cast] = []
        self._inside: FrameType | None = None

    def add(self, kernel: Kernel) -> None:
        # A NumPy function that a NumPy kernel calls is a part of it, not a kernel of
        # its own.
        """Note a kernel, unless it is part of a NumPy kernel or already noted."""
        is_part = self._inside is not None and not kernel.is_compiled
        if not is_part and kernel not in self.kernels:
            self.kernels.append(kernel)

    def cast(self, source: npt.DTypeLike, target: npt.DTypeLike) -> None:
        """Note a conversion between two different types."""
        found = Cast(np.dtype(source).name, np.dtype(target).name)
        if found.source != found.target and found not in self.casts:
            self.casts.append(found)

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Note the NumPy kernel that Python enters; called by `sys.setprofile`."""
        if event == "return" and frame is self._inside:
            self._inside = None
        if event != "call" or self._inside is not None or _SEEN.get() is not self:
            return
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("mdtensor.kernels.") or module.startswith(_MAKERS):
            return
        if module in _FORWARDING or frame.f_code.co_name == "promote":
            self._note_promotion(frame)
        elif not module.startswith("mdtensor.kernels.cpu."):
            own = frame.f_code.co_qualname
            name = f"{module.removeprefix('mdtensor.')}.{own}"
            # A private function prepares a call, often only the first one: its result
            # is cached. The kernel is the public function that Python enters next.
            is_private = any(part.startswith("_") for part in own.split("."))
            if not is_private and "<" not in name and name not in _ABOUT_TYPES:
                self.add(Kernel(name, NUMPY))
                self._inside = frame
                if module not in _TESTS_CASTS:
                    self._note_operand_casts(frame.f_locals)

    def _note_operand_casts(self, known: dict[str, Any]) -> None:
        """Note the casts of a NumPy kernel that has operands and a `dtype`."""
        dtype = known.get("dtype")
        if isinstance(dtype, np.dtype):
            for name, given in known.items():
                several = given if isinstance(given, (list, tuple)) else (given,)
                # The kernels cast x, x1, arrays and parts to `dtype`; a condition keeps
                # its type.
                if name.startswith(("x", "arrays", "parts")):
                    for each in several:
                        if isinstance(each, np.ndarray):
                            self.cast(each.dtype, dtype)

    def _note_promotion(self, frame: FrameType) -> None:
        """Note the cast that a call of `numpy.conversion.promote` makes."""
        if frame.f_code.co_name == "promote":
            known = frame.f_locals
            self.cast(known["x"].dtype, known["dtype"])

    def note_call(
        self,
        function: Callable[..., object],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
    ) -> None:
        """Note the kernel and casts of `quietly(function, *arguments, **options)`."""
        if isinstance(function, np.ufunc):
            self._note_loop(function, arguments, options.get("dtype"))
            return
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if name == "astype" and isinstance(owner, np.ndarray):
            self.cast(owner.dtype, arguments[0])
        elif function is not np.asarray and name and name[0] not in "<_":
            self.add(_kernel_of(function))

    def _note_loop(
        self, ufunc: np.ufunc, arguments: tuple[Any, ...], dtype: npt.DTypeLike | None
    ) -> None:
        """Note the loop of a ufunc, and the casts of its operands."""
        given = [x.dtype for x in arguments if isinstance(x, np.ndarray)]
        loop: list[Any] = [np.dtype(dtype)] * len(given) if dtype else given
        if not dtype and len(given) == ufunc.nin:
            # A ufunc without a loop for these types raises, and the call itself reports
            # that.
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


def spread(function: Callable[..., object], *operands: Any) -> None:
    """Report a NumPy function whose elements threads share."""
    if (seen := _SEEN.get()) is not None:
        seen.note_call(function, operands, {})


@contextmanager
def observe_kernels() -> Iterator[Observation]:
    """Observe the kernels and casts that run in the `with` block.

    The block gets an `Observation` of this thread or task. What runs in an inner block
    is in the observation of that block only.
    """
    seen, run = Observation(), numpy_kernels.current()
    token = _SEEN.set(seen)
    numpy_kernels.replace(_recording(seen, run))
    before = sys.getprofile()
    # Never replace the profiler of a user; then only kernels that report themselves are
    # seen.
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
        numpy_kernels.replace(run)
        _SEEN.reset(token)


def _count(change: int) -> None:
    """Add `change` to the number of blocks that observe."""
    global ACTIVE
    # Threads begin and end blocks independently.
    with _LOCK:
        ACTIVE += change


def _recording(seen: Observation, run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a runner to note each call in `seen`."""

    def record(function: Callable[..., object], *arguments: Any, **options: Any) -> Any:
        if _SEEN.get() is seen:
            seen.note_call(function, arguments, options)
        return run(function, *arguments, **options)

    return record


def _kernel_of(function: Callable[..., object]) -> Kernel:
    """Return the kernel of a NumPy function or of a function of `kernels/cpu`."""
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
    """Return the instruction set of a loop, from `numpy.lib.introspect`."""
    info_of = getattr(getattr(np.lib, "introspect", None), "opt_func_info", None)
    known = info_of(func_name=f"^{name}$").get(name, {}) if info_of else {}
    found = [info for loop, info in known.items() if loop.startswith(chars)]
    return f"{NUMPY} {found[0]['current'].split('(')[0]}" if found else NUMPY
