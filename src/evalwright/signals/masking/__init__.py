"""Masks secrets and personal data in all that is shown: texts, JSON, reports, logs.

`mask_text`, `mask_bytes` and `mask_value` mask what the scanner finds; `mask_capture` does so in a
captured body of unknown encoding. `report` masks signals and items of a compare report,
`credentials` also what is only shaped like a credential, for the host's answers and logs.
"""

from evalwright.signals.masking.text import mask_bytes, mask_capture, mask_text, mask_value

__all__ = ["mask_bytes", "mask_capture", "mask_text", "mask_value"]
