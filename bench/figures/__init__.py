"""Figures of the benchmark page, each one file for light and for dark pages.

They are drawn from kept results alone, as its tables are: the same file gives the same
figure, byte for byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import StringIO
from pathlib import Path

from bench.harness.reading import Reading
from bench.harness.result import Result


@dataclass(frozen=True)
class Figure:
    """What of a table is drawn, and how.

    Args:
        name: of the files.
        table: heading of the table, or a pattern of several; it stands above the first.
        kind: a function of `kinds`.
        says: in words, for who does not see it.
        rows: those drawn, by glob pattern.
    """

    name: str
    table: str
    kind: str
    says: str
    rows: str = "*"

    def readings(self, result: Result) -> list[Reading]:
        """What is drawn; none where the run had no such table."""
        return [
            one
            for one in result.readings
            if fnmatchcase(one.table, self.table) and fnmatchcase(one.row, self.rows)
        ]

    def heading(self, result: Result) -> str:
        """The table that it stands above; none where nothing is drawn."""
        return next((one.table for one in self.readings(result)), "")

    def write(self, readings: Sequence[Reading], folder: Path) -> Path:
        """Draw the figure into a folder and return the path of its file.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.
        """
        import matplotlib

        from bench.figures import kinds
        from bench.figures.theme import LIGHT, follow_reader, settings

        folder.mkdir(exist_ok=True)
        drawn = StringIO()
        with matplotlib.rc_context(settings(LIGHT)):
            picture = getattr(kinds, self.kind)(readings, LIGHT)
            metadata = {"Date": None, "Creator": None}
            picture.savefig(drawn, format="svg", metadata=metadata)
        path = folder / f"{self.name}.svg"
        path.write_text(follow_reader(drawn.getvalue()))
        return path

    def markdown(self, folder: str) -> str:
        """Return the picture as the page shows it."""
        return f"![{self.says}]({folder}/{self.name}.svg)"


#: Tables of time by size: names of figures, headings, what is measured.
SIZED = (
    ("elementwise", "Elementwise", "elementwise operations and chains of them"),
    ("casts", "Casts of float32", "casts of float32 to 16 and 8 bits"),
    ("reductions", "Reductions", "sums, maxima and means"),
    ("codes", "To codes and back", "to quantized and back"),
    ("convolutions", "Convolutions, 3 x 3, 64 channels", "convolutions"),
)
#: By bench; a figure stands above its table.
FIGURES = {
    "dispatch": (
        Figure(
            "dispatch-calls",
            "Warm call of two arguments",
            "dots",
            "Time of a warm call by every way of dispatch",
        ),
        Figure(
            "dispatch-growth",
            "By number of types and methods",
            "growth",
            "Time of a call by the number of methods, 4 to 5,000",
        ),
    ),
    "expression": (
        Figure(
            "expression-lines",
            "Cost of change",
            "bars",
            "Lines edited in existing files, by change and way of dispatch",
            "*lines edited",
        ),
    ),
    "sizes": tuple(
        Figure(f"sizes-{name}", table, "sizes", f"Time for each element: {what}")
        for name, table, what in SIZED
    ),
    "codes": (
        Figure(
            "codes-ratios",
            "A million codes",
            "ratios",
            "Time of operations on a million codes, relative to ONNX Runtime",
        ),
    ),
    "kernels": (
        Figure(
            "kernels-ratios",
            "Layers of mobile networks, integers",
            "ratios",
            "Time of each layer, relative to its peers",
        ),
    ),
    "layers": (
        Figure(
            "layers-ratios",
            "Layers on one thread",
            "ratios",
            "Time of each layer of MobileNetV2, relative to ONNX Runtime",
        ),
    ),
    "floats": (
        Figure(
            "floats-ratios",
            "Products of floats",
            "ratios",
            "Time of products of floats, relative to the peak of the CPU and to peers",
        ),
    ),
    "inference": (
        Figure(
            "inference-times",
            "One image a call*",
            "dots",
            "Time of an image on one thread by network and runtime",
            "*, 1 thread(s)",
        ),
    ),
}
