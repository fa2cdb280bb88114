"""Readings as Markdown tables: one line for each contender, or for each row."""

from collections.abc import Sequence

from bench.harness.reading import Reading

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def shown(value: float, unit: str) -> str:
    """Return a value with three digits, seconds in s, ms, us or ns."""
    if unit != "s":
        is_whole = value == round(value) or abs(value) >= 1000
        return f"{value:,.0f}" if is_whole else f"{value:.3g}"
    for size, name in UNITS:
        if abs(value) >= size:
            return f"{_digits(value / size)} {name}"
    return f"{_digits(value / 1e-9)} ns"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    cells = [[c.ljust(w) for c, w in zip(line, widths, strict=True)] for line in lines]
    cells.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def tabled(readings: Sequence[Reading]) -> str:
    """Return the table of one heading: a list for one row, a grid for several rows."""
    rows = list(dict.fromkeys(reading.row for reading in readings))
    ours = {_base([one for one in readings if one.row == row]) for row in rows}
    name = ours.pop() if len(ours) == 1 else "larger"
    if len(rows) == 1:
        return _list(readings, name)
    return _grid(readings, rows, name)


def _base(row: Sequence[Reading]) -> str:
    """Return the contender whose time is the numerator of each ratio."""
    return next((one.contender for one in row if not one.ratio), row[0].contender)


def _columns(readings: Sequence[Reading]) -> list[str]:
    return list(dict.fromkeys(key for reading in readings for key in reading.more))


def _value_name(readings: Sequence[Reading]) -> str:
    units = {reading.unit for reading in readings}
    return "time" if units == {"s"} else ", ".join(sorted(units))


def _list(readings: Sequence[Reading], ours: str) -> str:
    more = _columns(readings)
    has_rivals = any(one.ratio for one in readings)
    header = [readings[0].row, _value_name(readings), *more]
    header += [f"{ours} / this (95 %)"] * has_rivals
    lines = []
    for one in readings:
        cells = [one.contender, shown(one.value, one.unit)]
        cells += [one.more.get(key, "") for key in more]
        lines.append(cells + [str(one.ratio or "")] * has_rivals)
    return table(header, lines)


def _grid(readings: Sequence[Reading], rows: Sequence[str], ours: str) -> str:
    at = {(reading.row, reading.contender): reading for reading in readings}
    names = list(dict.fromkeys(reading.contender for reading in readings))
    rivals = [n for n in names if any(at[k].ratio for k in at if k[1] == n)]
    more = _columns(readings)
    header = [_value_name(readings), *names, *more, *(f"{ours} / {n}" for n in rivals)]
    lines = []
    for row in rows:
        found = {name: at.get((row, name)) for name in names}
        cells = [shown(one.value, one.unit) if one else "" for one in found.values()]
        known = [one.more for one in found.values() if one]
        cells += [next((m[key] for m in known if key in m), "") for key in more]
        ratios = (found[name] for name in rivals)
        cells += [str(one.ratio or "") if one else "" for one in ratios]
        lines.append([row, *cells])
    return table(header, lines)
