"""The same sentence with “never” and without, or with “always”, in languages besides English."""

import re
from collections.abc import Iterator

import msgspec

from evalwright.prompts.patterns import when_used

# For each language: always, never, and words that go with them and say nothing of their own.
_WORDS: dict[str, tuple[str, str, str]] = {
    "de": ("immer stets", "nie niemals", "bitte"),
    "fr": ("toujours", "jamais", "ne n"),
    "es": ("siempre", "nunca jamás", "no"),
    "pt": ("sempre", "nunca jamais", "não"),
    "it": ("sempre", "mai", "non"),
    "nl": ("altijd", "nooit", ""),
    "pl": ("zawsze", "nigdy", "nie"),
    "ru": ("всегда", "никогда", "не"),
    "uk": ("завжди", "ніколи", "не"),
    "sv": ("alltid", "aldrig", ""),
    "da": ("altid", "aldrig", ""),
    "no": ("alltid", "aldri", ""),
    "id": ("selalu", "jangan", "pernah"),
    "ro": ("întotdeauna mereu", "niciodată", "nu"),
    "hu": ("mindig", "soha", "ne"),
    "fi": ("aina", "koskaan", "älä"),
    "tr": ("daima her_zaman", "asla", ""),
    "vi": ("luôn_luôn luôn", "không_bao_giờ đừng_bao_giờ", ""),
    "el": ("πάντα πάντοτε", "ποτέ", "μη μην"),
    "he": ("תמיד", "לעולם", "אל לא"),
    "ar": ("دائما دائمًا", "أبدا أبدًا", "لا"),
    "hi": ("हमेशा", "कभी", "न मत नहीं भी"),
}
# Where no spaces part words: always, never, and how an order ends, with and without “not”.
_PIECES: dict[str, tuple[str, str, str]] = {
    "zh": (r"总是|始终|一律|务必|必须", r"绝不要?|永远不要|从不|切勿|禁止|不得", r"$^"),
    "ja": (
        r"必ず|常に",
        r"決して|絶対に",
        r"[をは]|(?:し?ないで|[しっ]?て|[んい]で)(?:ください|下さい)$|(?:する|しない)(?:こと)?$",
    ),
    "ko": (
        r"항상|반드시",
        r"절대로?",
        r"(?:하지\s?)?(?:마세요|마십시오|말\s?것|하세요|하십시오|할\s?것)$",
    ),
}
_SENTENCE = when_used(r"[^.!?;:,\n。！？；：，、।؟]+(?=([.!;:,?\n。！？；：，、।؟]?))")
_TOKEN = when_used(r"[^\W\d_]+(?:[\u0300-\u036f\u064b-\u065f\u0900-\u097f]+[^\W\d_]*)*")
_BREAKS = ":,：，、?？؟"  # a clause before or after one of these has a condition or an addressee
_QUOTES = '"“”„«»「」『』‘`'
_PLAIN_LETTERS = 8
_SIMILAR, _ENDING = 4, 3  # letters that two forms of a word share, and in which they differ


class Demand(msgspec.Struct, frozen=True):
    """One sentence that asks for something always or never, without the word that says so."""

    start: int
    end: int
    never: bool
    rest: tuple[str, ...]


def opposite_sentences(language: str, text: str) -> Iterator[tuple[Demand, Demand]]:
    """Pairs of sentences of a text in lower case of which one forbids what the other demands."""
    if language not in _PIECES:
        language = _spoken(language, text)
    if not language:
        return
    wanted: list[Demand] = []
    forbidden: list[Demand] = []
    before = ""
    for match in _SENTENCE.finditer(text):
        whole = before not in _BREAKS and match[1] not in _BREAKS if before else True
        whole = whole and not (match[1] and match[1] in _BREAKS)
        before = match[1] or ""
        if whole and not any(sign in match[0] for sign in _QUOTES):
            found = _demand(language, match)
            if found is not None:
                (forbidden if found.never else wanted).append(found)
    for one in wanted:
        for other in forbidden:
            if _are_same(one.rest, other.rest):
                yield one, other
                break


def _spoken(language: str, text: str) -> str:
    """A language whose “always” and “never” both occur; few words may be taken for another's."""
    found = set(_TOKEN.findall(text))
    return next(
        (
            each
            for each in (language, *_WORDS)
            if each in _WORDS
            and all(
                any(found.issuperset(word.split("_")) for word in part.split())
                # A language that is known needs no more than “never”.
                for part in _WORDS[each][each == language : 2]
            )
        ),
        "",
    )


def _demand(language: str, match: re.Match[str]) -> Demand | None:
    sentence = match[0]
    rest: tuple[str, ...]
    has_always: object
    has_never: object
    if language in _PIECES:
        always, never, order = _PIECES[language]
        has_always, has_never = re.search(always, sentence), re.search(never, sentence)
        bare = re.sub(rf"{always}|{never}|^[\s\-*•\d.]+", "", sentence).strip()
        rest = (re.sub(order, "", bare).strip(),)
    else:
        lists = [[each.replace("_", " ") for each in part.split()] for part in _WORDS[language]]
        padded = f" {' '.join(_TOKEN.findall(sentence))} "
        has_always, has_never = (
            next((each for each in words if f" {each} " in padded), None) for words in lists[:2]
        )
        for each in (*lists[1], *lists[0], *lists[2]):
            padded = padded.replace(f" {each} ", " ")
        rest = tuple(padded.split())
    if has_always and has_never:
        return None
    # A plain sentence is an order where the same is forbidden.
    enough = _PLAIN_LETTERS if not (has_always or has_never) else 1
    if len("".join(rest)) < enough:
        return None
    return Demand(match.start(), match.end(), bool(has_never), rest)


def _are_same(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether words are the same but for their endings, which “never” changes in many languages."""
    return len(one) == len(other) and all(map(_are_forms, one, other))


def _are_forms(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    if one == other or (len(shorter) > 1 and longer.startswith(shorter)):
        return len(longer) - len(shorter) <= _ENDING
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return (same >= _SIMILAR - 1 and len(longer) - same <= _ENDING - 1) or (
        same >= _SIMILAR and len(longer) - same <= _SIMILAR
    )
