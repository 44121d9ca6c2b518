"""The SQLite schema of the event log, which `schema.sql` describes."""

from pathlib import Path

from evalwright.contracts.events import TERMINAL_TYPES
from evalwright.store import outbox

APPLICATION_ID = 0x4556574C  # "EVWL"
TOMBSTONE_BYTES = 300  # that what is left of a deleted run counts as

# Comparisons joined by OR: `type IN (…)` costs twice as much on every insert.
IS_END = " OR ".join(f"type = '{name}'" for name in TERMINAL_TYPES)


def read_scripts() -> tuple[str, str]:
    """What makes the tables, and what makes the rules that they are kept by from then on."""
    text = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    text = text.replace("{IS_END}", IS_END).replace("{TOMBSTONE}", str(TOMBSTONE_BYTES))
    tables, mark, rules = text.partition("-- Rules:")
    tables += outbox.TABLES.format(number="integer") + outbox.COUNT_IN_SQLITE
    return tables, mark + rules
