"""What users only want to know, in their words: one table for each language."""

# ruff: noqa: E501, RUF001 (a table is read by its lines; letters of other scripts)

import re

import re2

from evalwright.trace.cached import recent

# "Could you", "will you" and "why not" ask for something to be done.
_ENGLISH = (
    r"what|which|who|whose|when|where|how (?:many|much|long|big|large|old|far|often|is|are|do|does"
    r"|did|was|were|has|have)|is|are|was|were|does|did|has|have|do (?:i|we|they|you have)"
)
# Words with which a question opens that wants to know something.
_OPENING = {
    "de": "wie (?:viel|viele|oft|groß|hoch|lange|alt|weit|ist|sind|war|heißt|geht|läuft|steht|wird)|was|wann|wo|wer|wem|wessen|welche[rsnm]?|warum|gibt es|ist|sind|war|waren|hat|haben",
    "es": "cuánt[oa]s?|qué|cuál(?:es)?|dónde|quién(?:es)?|cuándo|cómo|por qué|hay|es|está|están",
    "fr": "combien|quel(?:le)?s?|qui|quand|où|comment|pourquoi|qu'est-ce|est-ce que? (?:le|la|les|mon|ma|mes|il|elle)|y a-t-il",
    "it": "quant[oaie]|qual[ei]?|chi|dove|quando|cosa|che cosa|perché|come|c'è|ci sono",
    "pt": "quant[oa]s?|qua(?:l|is)|quem|onde|quando|o que|por que|como|há",
    "nl": "hoeveel|welke?|wat|wie|waar|wanneer|waarom|hoe|is|zijn|was|heeft|hebben",
    "pl": "ile|któr[yae]|jak[iae]?|co|gdzie|kiedy|kto|dlaczego|czy (?:jest|są|mam|był)",
    "ru": "сколько|как(?:ой|ая|ое|ие|ов)?|что|где|кто|когда|почему|чей|есть ли",
}
# Where they may stand anywhere: nothing else tells a question from an order.
_ANYWHERE = {
    "tr": r"\b(?:kaç|hangi|nerede|kim|ne zaman|neden|nedir|ne kadar)",
    "zh": "多少|几|哪|什么|什麼|谁|誰|何时|吗|嗎|是否",
    "ja": "いくら|いくつ|何|どの|どれ|いつ|誰|どこ|なぜ|ですか|ますか|でしたか|ましたか",
    "ko": "몇|무엇|뭐|무슨|어느|어떤|언제|누구|누가|어디|얼마|인가요|나요|습니까",
    "ar": "كم|ما هو|ما هي|ماذا|أي |متى|أين|هل |لماذا",
}
# Somebody who asks for something in the form of a question.
_ASKING = "请|請|帮|幫|麻烦|麻煩|くれ|ください|下さい|もらえ|いただけ|お願い|주세요|줘|주실|줄래|misin|mısın|mısınız|misiniz|lütfen|يمكنك|من فضلك|لو سمحت"
_MARKS = "?？؟"
_SENTENCE = re.compile(rf"[^.!{_MARKS}。！\n]+[.!{_MARKS}。！\n]?")
_OPENS = re2.compile(
    r"(?i)[\s¿\"'(]*(?:and |but |so |also |und |y |et |e |en |i |а |и )?"
    rf"(?:{_ENGLISH}|{'|'.join(_OPENING.values())})(?:[^\pL]|$)"
)
_WITHIN = re2.compile(f"(?i){'|'.join(_ANYWHERE.values())}")
_ASKED = re2.compile(f"(?i){_ASKING}")
# What asks to be shown or told something, in sentences that are no questions.
_INFORMING = {
    "de": r"zeig|list|nenn|fass|sag|les|lies|such|find|erklär|prüf|schau|sieh|überprüf|vergleich|berechn|zähl|ermittl|gib|beschreib|analysier|übersetz|wie |was |welch",
    "es": r"muestr|mostr|list|dime|di |resum|lee|leer|busc|encuentr|explic|revis|compar|calcul|cuent|analiz|dame|traduc|describ|comprueb|verific|consult|mir[ae]",
    "fr": r"montr|affich|list|dis|résum|lis|lire|cherch|trouv|expliqu|vérifi|compar|calcul|compt|analys|donn|tradui|décri|consult|regard",
    "it": r"mostr|elenc|dimmi|riassum|legg|cerc|trov|spieg|controll|confront|calcol|cont|analizz|dammi|traduc|descriv|verific|guard",
    "pt": r"mostr|list|diga|diz|resum|leia|lê|procur|busc|encontr|expli|verifi|compar|calcul|cont|analis|dê|dá|tradu|descrev|consult|olh",
    "nl": r"toon|laat|geef|vat|lees|zoek|vind|leg|controleer|vergelijk|bereken|tel|analyseer|vertel|zeg|beschrijf|bekijk|vertaal",
    "pl": r"pokaż|wymień|podaj|podsumuj|streść|przeczytaj|szukaj|wyszukaj|znajdź|wyjaśnij|sprawdź|porównaj|oblicz|policz|przeanalizuj|powiedz|opisz|zobacz|przetłumacz",
    "tr": r"göster|listele|özetle|oku|ara|bul|açıkla|kontrol|karşılaştır|hesapla|say|analiz|söyle|anlat|çevir|bak",
    "ru": r"покаж|перечисл|назов|сумм|резюм|прочит|прочти|читай|найд|найти|ищи|поищ|объясн|провер|сравн|посчит|подсчит|вычисл|проанализ|скаж|расскаж|опиш|посмотр|дай|перевед[иё]т?е? (?:текст|на)|кратко",
    "zh": "显示|顯示|列出|查|看|读|讀|告诉|告訴|总结|總結|概括|解释|解釋|比较|计算|分析|翻译|找|搜",
    "ja": "見せ|表示|一覧|教え|要約|まとめ|読|探|検索|説明|確認|調べ|比較|計算|分析|翻訳|数え",
    "ko": "보여|알려|목록|요약|읽|찾|검색|설명|확인|비교|계산|분석|번역|말해",
    "ar": "أظهر|اعرض|اذكر|لخص|لخّص|اقرأ|ابحث|جد |اشرح|تحقق|قارن|احسب|حلل|حلّل|أخبر|صف |ترجم",
}
_UNSPACED = ("zh", "ja", "ko", "ar")
_INFORMS = re2.compile(
    rf"(?i)(?:^|[^\pL])(?:{'|'.join(each for language, each in _INFORMING.items() if language not in _UNSPACED)})"
    rf"|{'|'.join(_INFORMING[language] for language in _UNSPACED)}"
)
_LONGEST = 4000


@recent(128, 8)
def without_questions(said: str) -> str:
    """Someone's words but for what they only want to know."""
    if "?" not in said and said.isascii():
        return said
    said = said.encode("utf-8", "replace").decode()
    return _SENTENCE.sub(lambda found: "? " if _is_question(found.group()) else found.group(), said)


def _is_question(sentence: str) -> bool:
    if sentence[-1] in _MARKS and _OPENS.match(sentence):
        return True
    if sentence.isascii() or not _WITHIN.search(sentence):
        return False
    return _ASKED.search(sentence) is None


def wants_to_know(said: str) -> bool:
    """Whether someone's words, in a language besides English, ask to be told or shown something."""
    said = said[:_LONGEST].encode("utf-8", "replace").decode()
    if any(mark in said for mark in _MARKS) or _INFORMS.search(said):
        return True
    return without_questions(said) != said
