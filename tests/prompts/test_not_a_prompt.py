"""Files that are no prompts are told from prompts, by what they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linted import a_prompt

from evalwright.contracts.prompt_result import PromptResult
from evalwright.prompts.evaluate import lint_files
from evalwright.prompts.lint import document_kind
from evalwright.prompts.rules.prompt_text import Reading

LICENCE = """Permission is hereby granted, free of charge, to any person obtaining a copy of this
software, to sublicense it and to use it. The software is provided "as is", without warranty of
any kind. In no event shall the authors or copyright holders be liable.
"""
CONDUCT = """# Contributor covenant

## Our pledge
We pledge to make participation a harassment-free experience for everyone.

## Enforcement
Instances of unacceptable behavior may be reported to the community leaders.
"""
CHANGES = """# Changes

## [1.2.0] - 2026-01-05
- Faster start.

## [1.1.0] - 2025-11-30
- A new option.

## [1.0.0] - 2025-10-01
- The first release.
"""
README = """# Fastlog

[![Build](https://example.org/badge.svg)](https://example.org)

## Installation

    pip install fastlog

## Usage
Import it and call `fastlog.open`.

## License
MIT
"""
README_ZH = """# 快速日志

## 安装
运行 `npm install fastlog`。

## 使用方法
导入后调用 open 函数即可。

## 许可证
MIT

## 贡献
欢迎提交代码。
"""
LOG = "".join(f"2026-01-0{day} 10:00:0{day} INFO job {day} done\n" for day in range(1, 9))
LOREM = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor.\n"
SALAD = (
    "best ai prompt, prompt generator, expert role, task format, step by step, json output, "
    "bullet list, tone, audience, constraints, examples, markdown table, write summarize analyze, "
    "professional style, comprehensive instructions, output format, chatgpt prompt engineering\n"
)
RECIPES = {
    "en": "# Soup\n\n## Ingredients\n- 200 g lentils\n- 2 tbsp oil\n\n## Method\nBoil it.\n",
    "de": "# Suppe\n\n## Zutaten\n- 200 g Linsen\n- 2 EL Öl\n\n## Zubereitung\nKochen.\n",
    "fr": "# Soupe\n\n## Ingrédients\n- 200 g de lentilles\n- 20 cl d'huile\n\n## Préparation\n"
    "Faites cuire une heure.\n",
    "ru": "# Суп\n\n## Ингредиенты\n- 200 г чечевицы\n- 2 ст. л. масла\n\n## Приготовление\n"
    "Варить один час.\n",
    "zh": "# 扁豆汤\n\n## 材料\n- 200 克扁豆\n- 2 勺油\n\n## 做法\n煮一个小时，加盐即可。\n",
    "ja": "# 豆のスープ\n\n## 材料\n- 200 グラム 豆\n- 2 個 玉ねぎ\n\n## 作り方\n一時間煮ます。\n",
}
REPORTS = {
    "en": "The new library opened its doors on Monday. It has six floors, a reading room for "
    "children and a café. About three thousand visitors came on the first day, the mayor said.\n",
    "de": "Die neue Bibliothek hat am Montag geöffnet. Sechs Etagen und ein Lesesaal stehen zur "
    "Verfügung. Rund dreitausend Besucher kamen am ersten Tag in das Haus.\n",
    "es": "La biblioteca municipal abrió el lunes. El edificio tiene seis plantas y una sala de "
    "lectura infantil. Unas tres mil personas visitaron el edificio durante la apertura.\n",
    "ru": "Новая библиотека открылась в понедельник. В здании шесть этажей и детский зал. "
    "В первый день пришло около трёх тысяч читателей, сообщил директор.\n",
    "fr": "La nouvelle bibliothèque a ouvert lundi. Le bâtiment compte six étages et une salle de "
    "lecture pour les enfants. Environ trois mille visiteurs étaient présents le premier jour.\n",
    "pt": "A nova biblioteca abriu na segunda-feira. O edifício tem seis andares e uma sala de "
    "leitura infantil. Cerca de três mil visitantes chegaram no primeiro dia de abertura.\n",
    "it": "La nuova biblioteca ha aperto lunedì. L'edificio ha sei piani e una sala di lettura "
    "per bambini. Circa tremila visitatori sono arrivati il primo giorno, ha detto il sindaco.\n",
    "pl": "Nowa biblioteka została otwarta w poniedziałek. Budynek ma sześć pięter i czytelnię "
    "dziecięcą. Pierwszego dnia przyszło około trzech tysięcy czytelników i gości z miasta.\n",
    "tr": "Yeni kütüphane pazartesi günü açıldı. Binada altı kat ve çocuklar için bir okuma salonu "
    "var. İlk gün yaklaşık üç bin ziyaretçi geldi, kitap sayısı seksen bini aştı.\n",
    "ar": "افتتحت المكتبة الجديدة يوم الاثنين. يتكون المبنى من ستة طوابق وقاعة قراءة للأطفال. "
    "حضر نحو ثلاثة آلاف زائر في اليوم الأول حسب مدير المكتبة.\n",
    "fa": "کتابخانه جدید روز دوشنبه افتتاح شد. ساختمان شش طبقه و یک سالن مطالعه کودکان دارد. "
    "در روز نخست حدود سه هزار بازدیدکننده آمدند و هشتاد هزار جلد کتاب دیدند.\n",
    "ko": "새 도서관이 월요일에 문을 열었다. 건물은 육 층이며 어린이 열람실과 자습실이 있다. "
    "첫날 약 삼천 명의 시민이 찾았고 장서는 팔십만 권이라고 관장은 말했다.\n",
    "zh": "昨天上午，新图书馆正式开放。馆内共有六层，藏书约八十万册，设有儿童阅览室和自习室。"
    "开馆首日约有三千名读者前来参观。\n",
    "ja": "新しい図書館が月曜日に開館した。館内は六階建てで、児童室と自習室がある。"
    "初日には約三千人が訪れたと館長は話した。\n",
}
PROMPTS = {
    "en": "Summarise the licence below in three bullet points and name its conditions.\n",
    "de": "Fasse den Text unten in drei Stichpunkten zusammen und nenne alle Bedingungen.\n",
    "fr": "Résumez le texte ci-dessous en trois points et citez toutes les conditions.\n",
    "es": "Resume el texto siguiente en tres puntos y enumera todas las condiciones.\n",
    "pt": "Resuma o texto abaixo em três pontos e liste todas as condições.\n",
    "it": "Riassumi il testo seguente in tre punti ed elenca tutte le condizioni.\n",
    "pl": "Streść poniższy tekst w trzech punktach i wymień wszystkie warunki.\n",
    "tr": "Aşağıdaki metni üç maddede özetle ve bütün koşulları listele.\n",
    "vi": "Hãy tóm tắt văn bản dưới đây thành ba ý và liệt kê mọi điều kiện.\n",
    "ru": "Кратко изложи текст ниже в трёх пунктах и перечисли все условия.\n",
    "ar": "لخص النص أدناه في ثلاث نقاط واذكر جميع الشروط.\n",
    "fa": "متن زیر را در سه نکته خلاصه کن و همه شرط‌ها را فهرست کن.\n",
    "zh": "请把下面的文字总结成三点，并列出所有条件。\n",
    "ja": "次の文章を三つの要点に要約し、すべての条件を挙げてください。\n",
    "ko": "아래 글을 세 가지 요점으로 요약하고 모든 조건을 나열하세요.\n",
}


def kind_of(text: str, path: str = "prompts/a.md") -> str | None:
    return document_kind(Reading(a_prompt(text, path)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("licence", LICENCE),
        ("code_of_conduct", CONDUCT),
        ("changelog", CHANGES),
        ("readme", README),
        ("readme", README_ZH),
        ("log", LOG),
        ("licence", "# Lizenz\n\nCreative Commons 4.0. Eine Gewährleistung gibt es nicht.\n"),
        ("readme", "# API\n\n## GET /v1/orders\n\nReturns orders. `401` without a key.\n"),
        ("no_instructions", "symbol;close;volume\nABC;12.40;100\nDEF;9.10;80\n"),
        ("no_instructions", "id,date,amount\n1,2026-01-02,19.90\n2,2026-01-03,5.00\n"),
        ("no_instructions", '{"users": {"ana": {"age": 41, "city": "Rome"}}, "total": 1}\n'),
        ("lorem_ipsum", LOREM * 3),
        ("keyword_salad", SALAD),
        ("scaffold", "# Prompt\n\n## Role\n\nTBD\n\n## Task\n\nTODO: write\n"),
        ("scaffold", "# Role: Your_Role_Name\n\n## Rules\n1. Don't break character.\n"),
        ("scaffold", "<role>\n</role>\n<task>\n</task>\n"),
        ("scaffold", "# Title\n\n## Prompt\n\n```text\n[Your prompt goes here]\n```\n"),
        ("scaffold", "---\nname: x\ndescription: y\n---\n# [Title]\n\n[Describe it here]\n"),
    ],
)
def test_documents_are_told_by_what_is_in_them(kind, text):
    assert kind_of(text) == kind


@pytest.mark.parametrize("code", RECIPES)
def test_a_recipe_is_no_prompt_in_any_language(code):
    assert kind_of(RECIPES[code]) == "recipe"


@pytest.mark.parametrize("code", REPORTS)
def test_a_text_that_asks_for_nothing_is_no_prompt_in_any_language(code):
    assert kind_of(REPORTS[code] * 2) == "no_instructions"


@pytest.mark.parametrize("code", PROMPTS)
def test_a_short_prompt_is_one_in_every_language(code):
    assert kind_of(PROMPTS[code]) is None


@pytest.mark.parametrize(
    "text",
    [
        f"You are a lawyer. Explain this licence to a child:\n\n{LICENCE}",
        f"You are a technical writer. Your task is to improve this page:\n\n{README}",
        "Write a change log entry for the diff below. Use the headings Added and Fixed.\n",
        "Generate a README with the sections Installation, Usage and License.\n",
        "# Severity\n\nRank the faults by their impact.\n\n"
        + "- **Crash**: panic or loss of data.\n" * 20,
        "Write a mail about {{it}}.\n\nTODO: tone\nTODO: examples\nTODO: length\n",
        "You get what `POST /v1/orders` returned.\n\n## POST /v1/orders\n\nYou are to check it.\n",
        '{"role": "editor", "task": "Summarize the article in three sentences"}\n',
        "{{question}}\n",
        "Hello\n",
        "---\ndescription: x\nglobs: **/*.py\n---\n- Type hints everywhere.\n",
        "Q: 1 + 1\nA: 2\n\nQ: 2 + 2\nA:\n",
    ],
)
def test_a_prompt_about_such_a_document_is_a_prompt(text):
    assert kind_of(text) is None


@pytest.mark.parametrize(
    "name", ["LICENSE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "README_de.md"]
)
def test_some_names_leave_no_doubt(name):
    assert kind_of("Some words about it, and more of them.\n", f"prompts/{name}") is not None
    assert kind_of("You are a lawyer. Explain the text.\n", f"prompts/{name}") is None


def test_a_comment_says_that_a_file_is_a_prompt_all_the_same():
    comment = "<!-- prompteval-ignore-file PE201: it is pasted below a question -->\n"
    assert kind_of(LICENCE + comment) is None


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.just("\n"), max_size=300))
def test_any_text_gets_a_verdict(text):
    kind_of(f"x{text}")


# Records


def test_an_order_to_write_such_a_document_is_a_prompt():
    text = "Write a change log entry for the diff, at most ten points.\n\n<diff>{{diff}}</diff>\n"
    assert kind_of(text, "prompts/changelog.md") is None


def verdicts(results: list[PromptResult]) -> dict[str, tuple[str | None, bool, bool]]:
    return {
        each.input.path.rpartition("/")[2]: (
            each.details.not_a_prompt,
            each.details.skipped,
            each.passed,
        )
        for each in results
    }


def test_in_a_folder_documents_are_skipped_and_scaffolds_fail(tmp_path):
    (tmp_path / "a.md").write_text(PROMPTS["en"])
    (tmp_path / "LICENSE.md").write_text(LICENCE)
    (tmp_path / "todo.md").write_text("# Prompt\n\nTBD\n")
    assert verdicts(lint_files([tmp_path], threshold=0)) == {
        "a.md": (None, False, True),
        "LICENSE.md": ("licence", True, False),
        "todo.md": ("scaffold", False, False),
    }


def test_a_document_that_is_named_fails_with_that_reason_and_the_lowest_score(tmp_path):
    (tmp_path / "LICENSE.md").write_text(LICENCE)
    [result] = lint_files([tmp_path / "LICENSE.md"], threshold=0)
    assert (result.passed, result.details.skipped) == (False, False)
    assert result.scores.overall == 1.0
    assert result.summary == "Not a prompt but a licence."
    assert [each.rule for each in result.details.findings] == ["PE201"]


def test_of_a_text_without_instructions_only_grave_faults_are_told(tmp_path):
    story = "The girl walked along the river until evening came, and the water was calm. " * 4
    token = "ghp" + "_aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    (tmp_path / "a.md").write_text(
        f"# River\n\n{story}\n\n{token}\n\n## Morning\n\n## Noon\n\nSun.\n"
    )
    [result] = lint_files([tmp_path / "a.md"], threshold=0)
    assert result.details.not_a_prompt == "no_instructions"
    assert [each.rule for each in result.details.findings] == ["PE201", "PE401"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("docs/howto.md", "readme"),
        ("docs/prompts/howto.md", None),
        ("howto.md", None),
    ],
)
def test_pages_for_people_lie_among_the_documentation(path, kind):
    page = "# Rewind\n\nUse the rewind key to undo a turn. Press it twice to select a turn.\n"
    assert kind_of(page, path) == kind
