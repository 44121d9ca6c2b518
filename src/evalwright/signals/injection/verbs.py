"""Verbs that tell what is done, and of what kind that is: one table for each language."""

# By language and kind. A verb of another language is written as an order gives it.
VERBS: dict[str, dict[str, str]] = {
    "en": {
        "send": "send email mail forward transfer pay wire remit message text post publish"
        " share submit notify reply respond donate deposit upload tweet dm deliver"
        " refund fax ship issue export leak broadcast copy sms report return relay"
        " withdraw reveal expose dump",
        "create": "create add make schedule book reserve register generate write draft insert"
        " append invite order buy purchase place subscribe plan arrange sign attach put"
        " save store prescribe apply enrol enroll type enter fill request tip hire"
        " reorder award connect link pair charge bill renew extend back record log claim",
        "change": "update modify change edit set reset rename replace move alter adjust configure"
        " enable disable increase decrease assign turn switch reschedule redirect raise"
        " lower upgrade downgrade activate deactivate archive mark lock mute tag pin"
        " resize convert restore divert reroute route swap exchange trade reduce scale"
        " reassign freeze suspend pause resume hide unhide bump patch rotate point shift",
        "delete": "delete remove erase cancel drop clear wipe destroy unsubscribe revoke"
        " terminate close uninstall kick ban block empty purge stop shut unfollow detach"
        " discard truncate dismiss reject decline void waive skip disconnect unlink"
        " expel fire",
        "permit": "grant allow give authorize authorise approve accept permit promote unlock"
        " confirm let release lift admit enlist endorse certify verify",
        "run": "run execute install download launch start call invoke use trigger deploy clone"
        " perform do merge push commit follow star fork join leave rate review like"
        " restart import load press click take vote",
        "read": "get read visit open browse go search find look check retrieve fetch list show"
        " view access navigate see locate query lookup calculate inspect count describe"
        " summarise summarize compare explain",
        "say": "say tell recommend mention state answer inform announce print output include"
        " repeat",
    },
}
VERB_KINDS: dict[bytes, str] = {
    verb.encode(): kind
    for kinds in VERBS.values()
    for kind, verbs in kinds.items()
    for verb in verbs.split()
}
_IRREGULAR = {
    "send": "sent", "pay": "paid", "make": "made", "write": "written", "buy": "bought",
    "give": "given", "put": "put", "set": "set", "shut": "shut", "tell": "told", "say": "said",
    "run": "run", "do": "done",
}  # fmt: skip


def _participle(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeo":
        return verb[:-1] + "ied"
    return verb + (verb[-1] if verb in _DOUBLING else "") + "ed"


_DOUBLING = frozenset(
    ["transfer", "remit", "submit", "cancel", "ban", "drop", "permit", "unsubscribe", "tag", "pin"]
)
PARTICIPLE_KINDS: dict[bytes, str] = {
    _participle(verb).encode(): kind
    for kind, verbs in VERBS["en"].items()
    for verb in verbs.split()
}

# Verbs of more than one kind: one makes a file, or makes a file public; opens a page, or a door.
ALSO: dict[bytes, tuple[str, ...]] = {
    b"make": ("change",),
    b"share": ("permit",),
    b"post": ("create",),
    b"put": ("send", "change"),
    b"give": ("send", "create"),
    b"add": ("permit", "change"),
    b"open": ("create", "permit"),
    b"remove": ("change",),
    b"take": ("delete", "change"),
    b"turn": ("run", "delete"),
    b"disable": ("delete",),
    b"issue": ("create",),
    b"attach": ("permit", "send"),
    b"copy": ("create",),
    b"accept": ("create",),
    b"write": ("send",),
    b"answer": ("send",),
    b"return": ("create",),
    b"leave": ("send", "create"),
    b"set": ("create",),
    b"install": ("create",),
    b"order": ("run",),
    b"switch": ("run", "delete"),
}
# Verbs that tell the same deed.
_SYNONYMS = (
    "buy purchase order reorder",
    "delete remove erase wipe purge clear empty discard",
    "transfer wire remit pay",
    "book reserve",
    "cancel void terminate",
    "grant allow permit authorize authorise",
    "disable deactivate",
    "enable activate",
)
SYNONYMS = tuple(tuple(verbs.encode().split()) for verbs in _SYNONYMS)
# What may be done to anything: these verbs alone say little.
_ANY_DEED = {
    "en": "create add make set update change use run do get put call start take give edit write"
    " save generate submit execute perform",
}
ANY_DEED = frozenset(verb for verbs in _ANY_DEED.values() for verb in verbs.encode().split())
_KINDS_OF = {
    verb: (kind, *ALSO.get(verb, ())) for verb, kind in {**PARTICIPLE_KINDS, **VERB_KINDS}.items()
}


def kinds_of(word: bytes) -> tuple[str, ...]:
    """The kinds of verb that a word may be."""
    return _KINDS_OF.get(word, ())
