"""The words that make a sentence an instruction, and those that press its reader to obey."""

import re2

_KINDS = {
    "send": "send email mail forward transfer pay wire remit message text post publish share"
    " submit notify reply respond donate deposit upload tweet dm deliver refund",
    "create": "create add make schedule book reserve register generate write draft insert append"
    " invite order buy purchase place subscribe plan arrange sign",
    "change": "update modify change edit set reset rename replace move alter adjust configure"
    " enable disable increase decrease assign turn switch reschedule redirect",
    "delete": "delete remove erase cancel drop clear wipe destroy unsubscribe revoke terminate"
    " close uninstall kick ban block empty purge",
    "permit": "grant allow give authorize authorise approve accept permit promote unlock",
    "run": "run execute install download launch start call invoke use trigger deploy clone perform"
    " do merge push commit follow star fork join leave rate review",
    "read": "get read visit open browse go search find look check retrieve fetch list show view"
    " click access navigate see locate query lookup calculate inspect count",
    "say": "say tell recommend mention state answer inform claim announce print output include"
    " repeat",
}
VERB_KINDS: dict[bytes, str] = {
    verb.encode(): kind for kind, verbs in _KINDS.items() for verb in verbs.split()
}

_VERBS = "|".join(verb.decode() for verb in VERB_KINDS)
_LEADS = (
    "and|then|also|finally|next|just|now|first|instead|do|can you|could you|would you"
    "|(?:want you|like you|sure|remember|forget|asked) to"
)
# After these any verb makes an instruction, not only one that is known.
_URGES = "please|kindly|you(?: \w+ly)? (?:must|should|shall|need to|have to)"
_ORDERS = (
    "(?:instructions?|prompts?|directives?|rules?|guidelines?|tasks?|orders?|commands?|requests?)"
)
_PRESSURES = (
    r"(?:\b(?:ignore|disregard|forget|override|bypass|overrule)|(?-i:Ignore|Disregard|Forget))\b"
    rf"[^.!?]{{0,30}}\b(?:previous|prior|above|earlier|preceding|everything|your|{_ORDERS})\b",
    r"\b(?:follow|adhere to|obey|comply with|execute|perform)\b[^.!?]{0,30}"
    rf"\b(?:following|these|new|below)\b[^.!?]{{0,20}}\b{_ORDERS}\b",
    r"\b(?:new|updated|real|actual|special) (?:instructions?|directives?|tasks?)\b",
    r"\b(?:before|after|once|until|unless) you\b[^.!?]{0,60}"
    r"\b(?:tasks?|requests?|questions?|instructions?|do that|do this|done|continue|proceed)\b",
    r"\b(?:solve|complete|finish|continue|resume|proceed with|return to)\b[^.!?]{0,20}"
    r"\b(?:original|initial|main|given|user'?s|your) (?:task|request|instructions?)\b",
    r"\btask (?:is |was |has been )?(?:completed?|done|finished|accomplished)[.!] (?-i:[A-Z])[a-z]",
    r"\b(?:as|you are)(?: now)? an? (?:\w+ )?(?:ai|assistant|language model|llm|agent|chatbot)\b",
    r"\bfrom now on,? (?:you|act|answer|respond|ignore|always|only)\b|\bdo anything now\b",
    r"\b(?:developer|debug|admin|maintenance|god|unrestricted) mode\b",
    r"\b(?:reveal|show|print|repeat|output|leak)\b[^.!?]{0,20}\b(?:your|system|initial|original)\b"
    r"[^.!?]{0,20}\b(?:prompt|instructions)\b",
    r"\bsystem prompt\b|<\|? ?/?(?:system|im_start|inst)|\[/?(?:inst|system)\]",
    r"#{2,} ?(?:new )?(?:instruction|system)",
)


def _spaced(pattern: str) -> str:
    return pattern.replace(" ?", r"\s*").replace(" ", r"\s+")


DIRECTIVE = re2.compile(
    rf"(?i)(?:^|[.!?:;,>)\]}}\"'`*\n|-]|\b(?:{_spaced(_LEADS)})\b)[\s\"'`*(]*\b(?:{_VERBS})\b"
    rf"|\b(?:{_spaced(_URGES)})\s+[a-z]+"
)
# Nobody but an agent is told to drop its orders, to finish its task later, or what it is.
PRESSURE = re2.compile("(?i)" + "|".join(map(_spaced, _PRESSURES)))
# A sentence also ends where a quoted value, a paragraph or a field of a listing does.
SENTENCE_END = re2.compile(
    r"[.!?][\"')\]]*\s+[\"'<(]*[A-Z0-9<]|\n\s*\n|</|[\"']\s*[,}\]]|[\"']\n|\n\s*(?:- )?\w+: "
)
