"""Texts are known by their language, and counted in words and sentences of it."""

# ruff: noqa: RUF001 (letters and marks of other scripts)

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalwright.signals.language import language_of, words

TEXTS = {
    "en": "You are a careful editor. Shorten the text below and keep every fact that is in it.",
    "de": "Du bist ein sorgfältiger Lektor. Kürze den Text und behalte alle Fakten, die er nennt.",
    "fr": "Vous êtes un relecteur attentif. Raccourcissez le texte et gardez tous les faits.",
    "es": "Eres un editor cuidadoso. Acorta el texto y conserva todos los hechos que contiene.",
    "pt": "Você é um editor cuidadoso. Encurte o texto e mantenha todos os fatos que ele tem.",
    "it": "Sei un redattore attento. Accorcia il testo e mantieni tutti i fatti che sono lì.",
    "pl": "Jesteś uważnym redaktorem. Skróć tekst i zachowaj wszystkie fakty, które się w nim są.",
    "tr": "Sen dikkatli bir editörsün. Metni kısalt ve içindeki bütün bilgileri koru.",
    "vi": "Bạn là một biên tập viên cẩn thận. Hãy rút ngắn văn bản và giữ lại mọi dữ kiện.",
    "ru": "Ты внимательный редактор. Сократи текст и сохрани все факты, которые в нём есть.",
    "uk": "Ти уважний редактор. Скороти текст і збережи всі факти, які в ньому є.",
    "ar": "أنت محرر دقيق. اختصر النص التالي واحتفظ بكل الحقائق الواردة فيه.",
    "fa": "شما یک ویراستار دقیق هستید. متن زیر را کوتاه کنید و همه واقعیت‌ها را نگه دارید.",
    "zh": "你是一名细心的编辑。请缩短下面的文字，并保留其中的所有事实。",
    "ja": "あなたは注意深い編集者です。次の文章を短くし、すべての事実を残してください。",
    "ko": "당신은 꼼꼼한 편집자입니다. 아래 글을 줄이고 모든 사실을 그대로 두세요.",
    "th": "คุณเป็นบรรณาธิการที่รอบคอบ ช่วยย่อข้อความด้านล่างและเก็บข้อเท็จจริงทั้งหมดไว้",
    "hi": "आप एक सावधान संपादक हैं। नीचे दिए गए पाठ को छोटा करें और सभी तथ्य रखें।",
}


@pytest.mark.parametrize("code", TEXTS)
def test_a_text_is_known_by_its_language(code):
    assert language_of(TEXTS[code]).code == code


@pytest.mark.parametrize("code", ["zh", "ja", "ru", "ar"])
def test_names_and_code_in_latin_letters_do_not_make_it_english(code):
    text = f"# Role: Editor API\n\n`json.dumps(value)`\n\n{TEXTS[code]}"
    assert language_of(text).code == code


@pytest.mark.parametrize("code", TEXTS)
def test_the_same_text_has_about_as_many_words_in_every_language(code):
    assert 9 <= len(words(TEXTS[code].lower())) <= 22


def test_what_has_no_letters_has_no_language():
    assert language_of("12 + 30 = 42").code == "und"


@given(st.text(max_size=200))
def test_any_text_can_be_measured(text):
    assert language_of(text).code
    assert len(words(text.lower())) <= len(text)


@given(st.text("ab'- .–\n1", max_size=40))
def test_a_word_begins_with_a_letter_and_may_hold_apostrophes_and_hyphens(text):
    assert words(text) == re.findall(r"[a-z][a-z'-]*", text)


@given(st.text("ab'- .⚠✅→–\n1", max_size=40), st.integers(0, 40))
def test_what_makes_an_emoji_of_a_symbol_makes_no_word(text, at):
    marked = f"{text[:at]}⚠\ufe0f{text[at:]}"

    assert words(marked) == words(marked.replace("\ufe0f", ""))


@given(st.text("abéœß'- .⚠→–\n1µñ\u024f", max_size=40))
def test_words_with_accents_are_the_same_beside_another_script(text):
    assert words(f"{text}\nж")[:-1] == words(text)
