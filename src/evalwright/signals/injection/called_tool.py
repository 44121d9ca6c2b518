"""What the name of a tool says of it."""

import re
from functools import lru_cache

import msgspec

from evalwright.signals.injection.instructions import stem
from evalwright.signals.injection.verbs import ANY_DEED, SYNONYMS, VERB_KINDS, kinds_of
from evalwright.signals.written_values import plain_words

_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOUNS_TOO = frozenset(
    b"email mail message text post order book review report request plan call state tag issue"
    b" share report copy note type access view fork star sms fax list".split()
)
_CARRIERS = frozenset((b"http", b"api", b"tool", b"url"))  # they name no thing
_RULE_BOOKS = frozenset(
    b"skill skills instructions runbook runbooks playbook playbooks procedure procedures handbook"
    b" guideline guidelines prompt prompts sop".split()
)
# In the name of a tool alone, these say what it does.
_NAME_DEEDS = {
    b"control": b"change",
    b"toggle": b"change",
    b"deletion": b"delete",
    b"removal": b"delete",
}
_LONGEST_NAMED = 200


class CalledTool(msgspec.Struct, frozen=True, gc=False):
    """What the name of a tool says: the kind of thing it does, and to what."""

    name: bytes
    kind: str
    kinds: frozenset[str]
    verb: bytes
    stems: frozenset[bytes]
    is_general: bool  # its verb may be said of anything
    verbs: frozenset[bytes]  # the beginnings of its verb and of those for the same deed

    @property
    def clues(self) -> frozenset[bytes]:
        """The beginnings of words, one of which tells what it does, or to what."""
        return self.stems | self.verbs


@lru_cache(maxsize=4096)
def read_tool(name: str) -> CalledTool:
    """The meaning of a tool's name; the first verb in it says what the tool does."""
    words = [_NAME_DEEDS.get(word, word) for word in words_of_name(name)]
    verbs = [word for word in words if word in VERB_KINDS]
    # Beside a clear verb, a word that may be a noun counts as one: `order.cancel`.
    verb = next((word for word in verbs if word not in _NOUNS_TOO), next(iter(verbs), b""))
    named = {stem(word) for word in words if word != verb or verb in _NOUNS_TOO}
    stems = frozenset(named - _CARRIERS)
    kinds = frozenset(kinds_of(verb))
    kind = VERB_KINDS.get(verb, "")
    called = plain_words(name[:_LONGEST_NAMED])
    if verb:
        alike = next((group for group in SYNONYMS if verb in group), (verb,))
        like = frozenset(map(stem, alike))
    else:
        like = frozenset()
    return CalledTool(called, kind, kinds, stem(verb), stems, verb in ANY_DEED, like)


def brings_rules(tool: str) -> bool:
    """Whether a tool is there to bring instructions in: those of a skill, a runbook, a handbook."""
    return not _RULE_BOOKS.isdisjoint(words_of_name(tool))


def words_of_name(name: str) -> list[bytes]:
    """The words of an identifier, however it joins them."""
    return plain_words(_CAMEL_CASE.sub(" ", name[:_LONGEST_NAMED]).replace(".", " ")).split()
