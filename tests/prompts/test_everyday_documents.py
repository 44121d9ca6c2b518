"""Documents of everyday work are told from prompts, also from those that ask for one."""

import pytest
from linted import a_prompt

from evalwright.prompts.lint import document_kind
from evalwright.prompts.rules.prompt_text import Reading

CODE = {
    "python": "import os\n\n\ndef load(path):\n    with open(path) as file:\n"
    "        return file.read()\n",
    "sql": "CREATE TABLE t (\n  id serial PRIMARY KEY,\n  name text NOT NULL\n);\n"
    "INSERT INTO t VALUES (1, 'a');\n",
    "packages": "requests==2.31.0\nnumpy>=1.24,<2\n# for tests\npytest[all]~=7.4\n-r more.txt\n",
    "stack": 'Traceback (most recent call last):\n  File "a.py", line 8, in <module>\n    run(x)\n'
    "ValueError: no such thing\n",
    "bytes": "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4AbCd==\n" * 2,
}
MINUTES = {
    "en": "# Sync, 4 May\n\nAttendees: Ann, Bo\n\n## Action items\n- [ ] Bo: send the plan\n",
    "label": "# Weekly sync\n\nPresent: design, two from platform.\n\n- The release moved.\n",
    "names": "# Team meeting\n\n## Attendees\n- Ann Lee\n- Bo\n\n## Decisions\n- We stay.\n",
    "de": "# Besprechung\n\nAnwesend: Frau Roth, Herr Kern\n\n- Das Gerüst wird teurer.\n",
    "fr": "# Réunion du 3 mai\n\nPrésents : Luc, Ana\n\n- Le budget passe à 2 000 euros.\n",
    "ru": "# Протокол\n\nПрисутствовали: Орлов, Зимина\n\n- Срок перенесён на май.\n",
    "zh": "# 会议纪要\n\n参会人员：张三、李四\n\n- 发布推迟到周五。\n",
    "ja": "# 定例会議\n\n出席者：佐藤、鈴木\n\n- リリースは金曜日に延期。\n",
}
LISTS = {
    "title": "# TODO\n\n- call the plumber\n- renew the passport\n- library books\n",
    "ticked": "# House\n\n- [x] paint\n- [ ] tap\n- [ ] door\n",
    "es": "# Lista de la compra\n\n- leche\n- pan\n- tomates\n- aceite\n",
}
LETTERS = {
    "en": "From: Ann\nTo: Bo\nSubject: keys\n\nHi Bo,\nyour keys are in the drawer.\nAnn\n",
    "fr": "De : Luc\nÀ : Ana\nObjet : gymnase\n\nBonjour, il est fermé le 5.\nVotre Luc\n",
    "ru": "От: Орлов\nКому: Зимина\nТема: ключи\n\nВаши ключи лежат на столе.\n",
}
CONTRACTS = {
    "en": "1. This agreement is made between the parties.\n2. The tenant pays monthly.\n"
    "3. The landlord must keep the house dry.\n",
    "es": "PRIMERA. El arrendador cede la vivienda.\nSEGUNDA. La fianza será de un mes.\n"
    "TERCERA. Los gastos serán de la arrendataria.\n",
    "de": "§ 1 Der Vermieter übergibt die Räume.\n§ 2 Die Kaution beträgt 900 Euro.\n"
    "§ 3 Gerichtsstand ist Kiel.\n",
    "zh": "第一条 甲方将房屋出租给乙方。\n第二条 租期一年。\n第三条 违约一方须赔偿。\n",
}
SPECIFICATION = (
    "# Software requirements specification: meter\n\n## Functional requirements\n"
    "FR-1 The meter shall accept coins.\nFR-2 The meter shall print a ticket.\n\n"
    "## Stakeholders\nCity and residents.\n"
)
POEM = (
    "Тихо падает снег над рекой,\nВ окнах тёплый качается свет,\nИ фонарь над пустой мостовой\n"
    "Всё хранит чей-то давний секрет.\n\nЗа оградой уснули сады,\nТёмный клён наклонился к стене\n"
)


def kind_of(text: str, path: str = "prompts/a.md") -> str | None:
    return document_kind(Reading(a_prompt(text, path)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *(("code", each) for each in CODE.values()),
        *(("minutes", each) for each in MINUTES.values()),
        *(("to_do_list", each) for each in LISTS.values()),
        *(("letter", each) for each in LETTERS.values()),
        *(("contract", each) for each in CONTRACTS.values()),
        ("specification", SPECIFICATION),
        ("no_instructions", POEM),
    ],
)
def test_documents_of_everyday_work_are_no_prompts(kind, text):
    assert kind_of(text) == kind


def test_a_list_of_things_to_do_is_told_by_the_name_of_its_file():
    assert kind_of("- paint\n- tap\n- door\n", "notes/todo.md") == "to_do_list"


@pytest.mark.parametrize(
    "text",
    [
        (
            "Write the minutes of the meeting below.\n\nAttendees: each speaker once, by name\n"
            "Agenda: the topics, in order\n"
        ),
        "You keep the minutes.\n\nAttendees: Ann, Bo\n\n## Agenda\n{{notes}}\n",
        "Build a to-do list app.\n\n## To do\n- add\n- edit\n- delete\n- filter\n",
        "# Review\n\nCheck all of it before you approve.\n\n- [ ] tests\n- [ ] types\n- [ ] docs\n",
        "Answer the mail.\n\nFrom: Ann\nTo: Bo\nSubject: keys\n\nWhere are my keys?\n",
        "From: {{sender}}\nSubject: {{subject}}\n\n{{body}}\n",
        (
            "You check deeds of the parties.\n\n1. Name the landlord.\n2. Name the tenant.\n"
            "3. Quote the governing law.\n"
        ),
        f"Draft test cases for the requirements.\n\n{SPECIFICATION}",
        (
            "# Product requirements document\n\nDraft one from {{idea}}, with the sections "
            "Stakeholders, User stories and Milestones.\n"
        ),
        "def solve(n):\n    # Complete the function, and explain each step in one sentence.\n",
        "Schreibe ein Gedicht\nüber den Schnee\nin sechs Zeilen\nohne Reim\nim Präsens\nkurz\n",
    ],
)
def test_a_prompt_that_asks_for_such_a_document_is_a_prompt(text):
    assert kind_of(text) is None


@pytest.mark.parametrize("name", ["AGENTS.md", "rules.mdc", "skills/x/SKILL.md"])
def test_what_an_agent_reads_may_be_a_list_of_things_to_do(name):
    assert kind_of(LISTS["title"], name) is None
