"""Tables as CSV (RFC 4180) in which a spreadsheet finds no formula of somebody else."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

# Spreadsheets read such a cell as a formula, except a sign alone, such as the path of stdin.
_FORMULA = re.compile(r"[=+\-@\t\r\n](?=.)|[\uff1d\uff0b\uff0d\uff20]", re.DOTALL)


def csv_document(head: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A table with its head; texts from elsewhere must have gone through `csv_text`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue().encode("utf-8", "backslashreplace")


def csv_text(text: str) -> str:
    """A text as a cell: one that would be a formula is marked as text."""
    return f"'{text}" if _FORMULA.match(text) else text
