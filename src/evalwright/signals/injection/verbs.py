"""Verbs that tell what is done, and of what kind that is."""

from evalwright.signals.word_tables import word_tables

_TABLES = word_tables(__file__)
VERBS = _TABLES["kinds"]
VERB_KINDS = {verb.encode(): kind for kind, verbs in VERBS.items() for verb in verbs}


def _participle(verb: str) -> str:
    if verb in _TABLES["participles"]:
        return _TABLES["participles"][verb][0]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeo":
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _TABLES["groups"]["doubling"] else "") + "ed"


PARTICIPLE_KINDS = {
    _participle(verb).encode(): kind for kind, verbs in VERBS.items() for verb in verbs
}
SYNONYMS = [[verb.encode() for verb in verbs] for verbs in _TABLES["synonyms"].values()]
ANY_DEED = frozenset(verb.encode() for verb in _TABLES["groups"]["any deed"])
_KINDS_OF = {
    verb: (kind, *_TABLES["also"].get(verb.decode(), ()))
    for verb, kind in {**PARTICIPLE_KINDS, **VERB_KINDS}.items()
}


def kinds_of(word: bytes) -> tuple[str, ...]:
    """The kinds of verb that a word may be."""
    return _KINDS_OF.get(word, ())
