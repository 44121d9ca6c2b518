"""What is known of one text that reached an agent; runs of an agent share many."""

from evalwright.signals.injection.instructions import InstructionReader
from evalwright.signals.injection.spoken_orders import SpokenOrder, spoken_orders
from evalwright.signals.injection.translation import gloss
from evalwright.signals.written_values import plain_words
from evalwright.trace.cached import cached, recent

_MOST_RECENT = 1024


class ReadText:
    """A text, and what it comes to in other forms; each is made when first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached
    def as_read(self) -> str:
        """The text with other languages glossed: instructions are read so."""
        return gloss(self.text)

    @cached
    def words(self) -> bytes:
        """The text as plain words."""
        return plain_words(self.text)

    @cached
    def reading(self) -> InstructionReader:
        """The text, prepared for finding instructions in it."""
        return InstructionReader(self.as_read)

    @cached
    def spoken_orders(self) -> tuple[SpokenOrder, ...]:
        """Its passages that may tell what to say."""
        return spoken_orders(self.text)


read_text = recent(_MOST_RECENT)(ReadText)
