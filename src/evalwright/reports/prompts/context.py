"""What a report shows besides the records."""

from collections.abc import Mapping, Sequence

import msgspec

from evalwright.prompts.change import Change
from evalwright.prompts.tiers import Tier


class ReportContext(msgspec.Struct, frozen=True):
    """The evaluation as a whole; `generated` is the only time that a report shows of itself."""

    tier: Tier
    threshold: float
    generated: str
    texts: Mapping[str, str] = {}  # path → the file's text
    change: Change | None = None
    passed_over: Sequence[str] = ()  # what lies in the folders and was not evaluated
