"""A bar for what runs models, which compiles their kernels if no process did before."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress

from mdtensor.cli.report import progress
from mdtensor.kernels.cpu.compilation import Notice

COMPILING = "compiling kernels, kept for next time ..."


@contextmanager
def working() -> Iterator[Progress]:
    """A bar on a terminal, and one line there as soon as a kernel is compiled."""
    with progress() as bar:

        def tell() -> None:
            bar.console.print(COMPILING, highlight=False)

        with Notice(tell):
            yield bar
