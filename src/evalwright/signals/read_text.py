"""What is known of one text that reached an agent; runs of an agent share many."""

from evalwright.signals.injection.instructions import InstructionReader
from evalwright.signals.injection.spoken_orders import (
    OrderAnchor,
    SpokenOrder,
    orders_near,
    spoken_orders,
)
from evalwright.signals.injection.translation import gloss
from evalwright.signals.written_values import plain_words
from evalwright.trace.cached import cached, recent

_MOST_RECENT = 1024
_REACH = 400  # bytes after a place that presses


class ReadText:
    """A text, and what it comes to in other forms; each is made when first asked for.

    What is known not to stand in it is not looked for: words of other languages, pressure on the
    reader to follow instructions, orders of what to say.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.may_be_foreign = self.may_press = self.may_tell_what_to_say = True

    @cached
    def as_read(self) -> str:
        """The text with other languages glossed: instructions are read so."""
        return gloss(self.text) if self.may_be_foreign else self.text

    @cached
    def words(self) -> bytes:
        """The text as plain words."""
        return plain_words(self.text)

    @cached
    def reading(self) -> InstructionReader:
        """The text, prepared for finding instructions in it."""
        return InstructionReader(self.as_read, may_press=self.may_press)

    @cached
    def spoken_orders(self) -> tuple[SpokenOrder, ...]:
        """Its passages that may tell what to say."""
        return spoken_orders(self.text) if self.may_tell_what_to_say else ()

    @cached
    def pressing_orders(self) -> tuple[SpokenOrder, ...]:
        """Those of what it presses its reader to say."""
        anchors = (OrderAnchor(at, at, 0, _REACH) for at in self.reading.pressure)
        return orders_near(self.reading.raw.lower(), anchors)


read_text = recent(_MOST_RECENT)(ReadText)
