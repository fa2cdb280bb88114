"""Counts of the cells of a histogram, in an array that reads as a mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

#: Cells of a histogram, a power of two so that doubling its range only merges cells.
CELLS = 2048


# A dictionary of a thousand cells took most of the time of a calibration.
class CellCounts(Mapping[int, int]):
    """The count of each cell from -CELLS to CELLS - 1 that occurred.

    Args:
        pairs: cells with their counts, each cell once.

    Raises:
        ValueError: a cell is outside.

    Example:
        >>> counts = CellCounts([(-3, 2), (5, 1)])
        >>> dict(counts)
        {-3: 2, 5: 1}
    """

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self.array: npt.NDArray[np.int64] = np.zeros(2 * CELLS, np.int64)
        for cell, count in pairs:
            if not -CELLS <= cell < CELLS:
                raise ValueError(f"cell {cell} is not from {-CELLS} to {CELLS - 1}")
            self.array[cell + CELLS] = count

    @property
    def cells(self) -> npt.NDArray[np.int64]:
        """Return the cells that occurred, in order."""
        return np.flatnonzero(self.array).astype(np.int64) - CELLS

    def __getitem__(self, cell: int) -> int:
        if not -CELLS <= cell < CELLS or not self.array[cell + CELLS]:
            raise KeyError(cell)
        return int(self.array[cell + CELLS])

    def __iter__(self) -> Iterator[int]:
        # Python integers, because JSON does not accept NumPy's in a saved calibration.
        return iter(self.cells.tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.array))

    def copy(self) -> CellCounts:
        """Return counts that can change without changing these."""
        found = CellCounts()
        found.array += self.array
        return found

    def merged(self, shift: int) -> CellCounts:
        """Return the counts of cells that are 2**shift times as wide."""
        found, cells = CellCounts(), self.cells
        # Cells have 12 bits, and a shift by 64 or more is not defined for int64.
        places = (cells >> min(shift, 63)) + CELLS
        np.add.at(found.array, places, self.array[cells + CELLS])
        return found
