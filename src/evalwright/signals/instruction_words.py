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
_URGES = r"please|kindly|you(?: \w+ly)? (?:must|should|shall|need to|have to)"
# What an agent is bound by. Spelling varies where filters are to be evaded.
_ORDERS = r"(?:\w*structions?|prompts?|directives?|guidelines?|commands?|rules?|tasks?)"
_OVERRIDE = (
    r"(?:\b(?:ignore|disregard|override|bypass|overrule)|(?-i:Ignore|Disregard))\b"
    rf"[^.!?]{{0,30}}\b{_ORDERS}\b"
    r"|\b(?:ignore|disregard|forget) (?:everything|all) (?:\w+ )?(?:you|above|before|and|else)\b"
    r"|\bforget\b[^.!?]{0,20}\b(?:previous|prior|earlier|all)\b[^.!?]{0,12}"
    rf"\b{_ORDERS}\b"
)
_OBEDIENCE = (
    r"\b(?:must|only|strictly|always|immediately)\b[^.!?]{0,20}"
    r"\b(?:follow|adhere to|obey|comply with|execute|perform)\b[^.!?]{0,20}"
    rf"\b(?:following|these|new|below)\b[^.!?]{{0,20}}\b{_ORDERS}\b"
    r"|\b(?:new|updated|real|actual) (?:instructions?|directives?)\b|\b(?:real|actual) task\b"
)
_POSTPONEMENT = (
    r"\b(?:before|after|once|until|unless) you\b[^.!?]{0,60}\b(?:tasks?|instructions?)\b"
    r"|\b(?:solve|complete|finish|continue|resume|proceed with|return to)\b[^.!?]{0,20}"
    r"\b(?:original|initial|main|user'?s) (?:task|instructions?)\b"
    r"|\btask (?:complete|accomplished)[.!] (?-i:[A-Z])[a-z]"
)
_CASTING = (
    r"\byou are(?: now)? an? (?:\w+ )?(?:ai|assistant|language model|llm|agent|chatbot)\b"
    r"|\bas an? (?:ai|language model|llm|chatbot)\b|\byou are now in \w+ mode\b"
    r"|\bfrom now on,? (?:you (?:are|must|will|only)|act|answer|respond|ignore)\b"
    r"|\bdo anything now\b|\b(?:god|unrestricted) mode\b"
)
_PROMPT = (
    r"\b(?:reveal|show|print|repeat|output|leak)\b[^.!?]{0,20}"
    r"\b(?:your|system|initial|original) (?:\w+ )?(?:prompt|instructions)\b"
    r"|<\|? ?/?(?:system|im_start|inst) ?\|?>|\[/?inst\]|#{2,} ?(?:new )?instruction ?:"
)


def _pattern(text: str) -> "re2._Regexp[bytes]":
    return re2.compile(text.replace(" ?", r"\s*").replace(" ", r"\s+").encode())


DIRECTIVE = _pattern(
    rf"(?i)(?:^|[.!?:;,>)\]}}\"'`*\n|-]|\b(?:{_LEADS})\b)[\s\"'`*(]*\b(?:{_VERBS})\b"
    rf"|\b(?:{_URGES})\s+[a-z]+"
)
# Nobody but an agent is told to drop its orders, to finish its task later, or what it is.
PRESSURE = _pattern(f"(?i){_OVERRIDE}|{_OBEDIENCE}|{_POSTPONEMENT}|{_CASTING}|{_PROMPT}")
# A sentence also ends where a quoted value, a paragraph or a field of a listing does.
SENTENCE_END = _pattern(
    r"[.!?][\"')\]]*\s+[\"'<(]*[A-Z0-9<]|\n\s*\n|</|[\"']\s*[,}\]]|[\"']\n|\n\s*(?:-\s)?\w+:\s"
)
FIELD = _pattern(r"\n\s*(?:-\s)?[a-z_]+:\s|[\"']\s*[,}\]]\s*[\"']\w+[\"']:")
# The user hands over: what stands in the content is to be done.
ENTRUSTS = _pattern(
    r"(?i)\b(?:do|follow|perform|execute|complete|carry out|handle|take care of|work through"
    r"|act on|implement|finish|address|process)\b[^.?!]{0,40}\b(?:actions?|tasks?|instructions?"
    r"|to-?dos?|steps?|requests?|asks?|says?|told|items?|directions?|checklist|list)\b"
)
OWN_LIST = _pattern(r"(?i)\b(?:following|these|below)\b")
# The user points at content that holds the particulars.
REFERS = _pattern(
    r"(?i)\b(?:based on|according(?:ly)?|specified|mentioned|listed|described)\b"
    r"|\b(?:bill|invoice|notice)\b|\.(?:txt|docx?|pdf|md|xlsx?|csv|html?)\b|https?://|www\."
)
TOOL_USE = _pattern(r"(?i)\b(?:use|using|call|calling|invoke|invoking|run|running|with|via)\b")
