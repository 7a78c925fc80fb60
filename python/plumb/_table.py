"""Rows that show themselves as a table, in a terminal and in a notebook."""
import html
from collections.abc import Iterable
from typing import Any


def _shown(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


class Table(list[dict[str, Any]]):
    """A list of dictionaries with the same keys, one a row."""

    def __init__(self, rows: Iterable[dict[str, Any]], marked: str | None = None) -> None:
        """marked: the key whose truth marks a row, as the one that was chosen."""
        super().__init__(rows)
        self._marked = marked

    def _columns(self):
        return [key for key in (self[0] if self else ()) if key != self._marked]

    def __repr__(self) -> str:
        columns = self._columns()
        lines = [columns] + [[_shown(row[key]) for key in columns] for row in self]
        widths = [max(map(len, column)) for column in zip(*lines)]
        marks = [" "] + ["*" if self._marked and row[self._marked] else " " for row in self]
        return "\n".join((mark + " " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths))).rstrip()
                         for mark, line in zip(marks, lines))

    def _repr_html_(self) -> str:
        columns = self._columns()

        def line(tag, cells, strong=False):
            cells = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr style=\"font-weight: bold\">{cells}</tr>" if strong else f"<tr>{cells}</tr>"

        rows = "".join(line("td", [_shown(row[key]) for key in columns], bool(self._marked and row[self._marked]))
                       for row in self)
        return f"<table><thead>{line('th', columns)}</thead><tbody>{rows}</tbody></table>"
