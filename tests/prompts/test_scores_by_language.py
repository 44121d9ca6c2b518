"""Scores without a model mean the same in every language, and length earns nothing."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linted import a_prompt

from evalwright.prompts.evaluate import lint_files
from evalwright.prompts.rubric import ASPECTS, RUBRIC
from evalwright.prompts.rules.prompt_text import Reading
from evalwright.prompts.structural import aspect_grades, gather, structural_scores
from evalwright.prompts.vocabulary import CONCEPTS, concept_counts, has_vocabulary
from evalwright.signals.language import Language

DOCUMENT = Path(__file__).parents[2] / "docs/prompt-rules.md"
VOCABULARY = Path(__file__).parents[2] / "src/evalwright/prompts/vocabulary.txt"

CLEAR = {
    "en": """Summarise the minutes between the tags for people who were not there.

1. Name every decision in one sentence, at most 20 words.
2. List the open points with the person in charge.
3. If no person is named, write “nobody”; do not guess.

Return a table with the columns decision, person and date. Example: “Move to May | Ann | 3 May”.

<minutes>{{minutes}}</minutes>
""",
    "de": """Fasse das Protokoll zwischen den Marken für Leute zusammen, die nicht dabei waren.

1. Nenne jede Entscheidung in einem Satz mit höchstens 20 Wörtern.
2. Liste die offenen Punkte mit der zuständigen Person auf.
3. Falls keine Person genannt ist, schreibe „niemand“; rate nicht.

Gib eine Tabelle mit den Spalten Entscheidung, Person und Datum aus. Beispiel: „Umzug | Ann | 3.5.“.

<minutes>{{minutes}}</minutes>
""",
    "ru": """Кратко перескажи протокол между тегами для тех, кого не было на встрече.

1. Назови каждое решение одним предложением, не более 20 слов.
2. Перечисли открытые вопросы и ответственного за каждый.
3. Если ответственный не указан, напиши «никто»; не угадывай.

Выведи таблицу со столбцами: решение, ответственный, дата. Пример: «Переезд | Анна | 3 мая».

<minutes>{{minutes}}</minutes>
""",
    "zh": """请为没有参加会议的人总结标签之间的会议记录。

1. 用一句话写出每个决定，最多 20 个字。
2. 列出未解决的问题和负责人。
3. 如果没有写明负责人，请写“无”，不要猜测。

输出一个表格，列为决定、负责人、日期。例如：“改到五月 | 小安 | 5月3日”。

<minutes>{{minutes}}</minutes>
""",
}
ABILITIES = """You are a world-class engineer with deep expertise and extensive experience.

Skills:
- Distributed systems
- Performance tuning
- Security
- Cloud platforms
- Data modelling
- Mentoring
"""


def scored(text: str) -> float:
    return structural_scores(Reading(a_prompt(text)), []).percentage


@pytest.mark.parametrize("language", [code for code in CLEAR if code != "en"])
def test_a_prompt_and_its_translation_score_alike(language):
    assert abs(scored(CLEAR[language]) - scored(CLEAR["en"])) <= 10


@pytest.mark.parametrize("language", CLEAR)
def test_instructions_score_above_a_list_of_abilities(language):
    assert scored(CLEAR[language]) - scored(ABILITIES) >= 20


@pytest.mark.parametrize("language", CLEAR)
def test_saying_everything_twice_earns_nothing(language):
    assert scored(2 * CLEAR[language]) <= scored(CLEAR[language]) + 1


def test_tags_and_headings_and_labels_are_parts_alike():
    task, answer = 12 * "Sort the mails by sender. ", 12 * "Return one word for each of them. "
    texts = (
        f"# Task\n\n{task}\n\n# Answer\n\n{answer}\n",
        f"<task>\n{task}\n</task>\n<answer>\n{answer}\n</answer>\n",
        f"Task:\n{task}\n\nAnswer:\n{answer}\n",
    )

    parts = [aspect_grades(gather(Reading(a_prompt(text))))["parts"] for text in texts]
    without = aspect_grades(gather(Reading(a_prompt(f"{task}{answer}"))))["parts"]

    assert min(parts) > 0.2 > without == 0


def test_a_short_prompt_needs_no_parts():
    short = aspect_grades(gather(Reading(a_prompt("Sort the mails. Return one word.\n"))))

    assert short["parts"] >= 0.75


def test_a_language_without_a_table_is_judged_by_what_can_be_seen():
    text = "".join(f"{number}. Zorko vinti lumpa gredi soma 3 fila.\n" for number in range(1, 6))
    evidence = gather(Reading(a_prompt(text)))
    seen = aspect_grades(type(evidence)(**{**_fields(evidence), "is_lexical": False}))

    assert not has_vocabulary(Language("und", "latin").code)
    assert seen["limits"] > aspect_grades(evidence)["limits"]


def _fields(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("da", "Skriv en kort opsummering af teksten. Hvis den er tom, svar ikke."),
        ("no", "Skriv et kort sammendrag av teksten. Hvis den er tom, svar ikke."),
        ("fi", "Kirjoita lyhyt tiivistelmä tekstistä. Jos se on tyhjä, älä vastaa."),
        ("hu", "Írj rövid összefoglalót a szövegről. Ha üres a szöveg, ne válaszolj."),
        ("cs", "Napiš krátké shrnutí textu. Pokud je text prázdný, nikdy neodpovídej."),
    ],
)
def test_a_case_and_a_limit_are_read_in_languages_that_resemble_others(code, text):
    reading = Reading(a_prompt(text))
    counts = gather(reading).concepts

    assert reading.prompt.language.code == code
    assert min(counts["asks"], counts["cases"], counts["limits"]) >= 1


def test_a_script_that_is_not_known_is_not_taken_for_another():
    reading = Reading(a_prompt("নিচের লেখাটির সারাংশ লিখুন।\n"))

    assert reading.prompt.language.code == "und"


def test_notes_that_address_nobody_score_below_the_same_points_as_instructions():
    notes = "- The design team showed 3 variants of the page.\n- Never late, the release moved.\n"
    orders = "- Show 3 variants of the page to the user.\n- Return the list, never late.\n"

    assert scored(notes) <= scored(orders) - 15


def test_the_form_that_a_file_declares_counts_as_stated():
    chat = "messages:\n- role: user\n  content: Describe {{animal}}.\n"

    plain, declared = (
        aspect_grades(gather(Reading(a_prompt(text, "a.prompt.yml"))))["form"]
        for text in (chat, f"responseFormat: json_object\n{chat}")
    )

    assert plain == 0 < 0.7 < declared


def test_advice_says_what_to_change_with_an_example():
    for aspect in ASPECTS.values():
        assert re.search(r"“[^”]+", aspect.advice), aspect.title
    assert {name for aspects in RUBRIC.values() for name, _ in aspects} == ASPECTS.keys()


def test_the_documentation_states_the_weights():
    text = DOCUMENT.read_text(encoding="utf-8")
    for criterion, aspects in RUBRIC.items():
        listed = ", ".join(f"{ASPECTS[name].title} ({weight:g})" for name, weight in aspects)
        assert f"| {criterion} | {listed} |" in text


def test_a_record_advises_what_to_change_first_and_nothing_twice(tmp_path):
    file = tmp_path / "role.md"
    file.write_text(ABILITIES, encoding="utf-8")

    advice = lint_files([file])[0].recommendations

    assert len(set(advice)) == len(advice) >= 3
    assert not any(each.startswith("Improve") for each in advice)
    assert any("abilities" in each or "keywords" in each for each in advice)
    assert all(re.search(r" \([a-z]+ [\d.]+%\)$", each) for each in advice)


def test_every_language_has_words_for_every_concept():
    sections = re.split(r"(?m)^\[(\w+)[^\]\n]*\]\n", VOCABULARY.read_text(encoding="utf-8"))[1:]
    rows = dict(zip(sections[::2], sections[1::2], strict=True))

    assert len(rows) >= 25
    for code, text in rows.items():
        assert re.findall(r"(?m)^(\w+):", text) == list(CONCEPTS), code
        assert "  " not in text.replace("\n  ", " "), code


def test_a_stem_stands_for_all_words_that_begin_with_it_and_english_counts_everywhere():
    counts = concept_counts("de", "", {"schreibe": 2, "niemals": 1, "json": 1, "hund": 5})

    assert counts == dict.fromkeys(CONCEPTS, 0) | {"asks": 2, "limits": 1, "forms": 1}


@given(st.text(max_size=200), st.sampled_from(["en", "de", "zh", "ko", "und"]))
def test_any_text_can_be_counted(text, language):
    lowered = text.lower()

    counts = concept_counts(language, lowered, dict.fromkeys(lowered.split(), 1))

    assert counts.keys() == set(CONCEPTS)
    assert min(counts.values()) >= 0


def test_agent_rules_are_advised_about_their_work_not_about_an_answer(tmp_path):
    file = tmp_path / "AGENTS.md"
    file.write_text("# Agents\n\n- Run the tests before each commit.\n- Never push to main.\n")

    advice = lint_files([file])[0].recommendations

    assert advice
    assert not any("JSON" in each or "{{" in each for each in advice)
