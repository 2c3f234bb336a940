"""The separator of a CSV file and its decimal point, from its first lines."""

import csv
import re
from pathlib import Path

SEPARATORS = (",", ";", "\t", "|")
LINES = 5  # that are looked at
_FRACTION = re.compile(r"-?\d+,\d+$")


def separator_of(path: Path) -> tuple[str, str]:
    """The separator and the decimal point: the separator that cuts the first lines into most, equally many fields.

    A file of one column has commas. The decimal point is a comma where another separator leaves values such as 1,5.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        lines = [line.rstrip("\r\n") for line in (file.readline(1 << 20) for _ in range(LINES)) if line.strip()]
    fields = {mark: _fields(lines, mark) for mark in SEPARATORS}
    best = max(SEPARATORS, key=lambda mark: fields[mark])  # the first of equals
    if fields[best] < 2:
        return ",", "."
    try:
        values = [value for row in csv.reader(lines[1:], delimiter=best) for value in row]
    except csv.Error:
        return best, "."
    return best, "," if best != "," and any(_FRACTION.match(value.strip()) for value in values) else "."


def _fields(lines: list[str], mark: str) -> int:
    """How many fields every line has; 1 where they differ."""
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=mark)}
    except csv.Error:
        return 1
    return counts.pop() if len(counts) == 1 else 1
