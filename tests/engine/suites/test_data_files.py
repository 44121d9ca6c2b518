"""Data files: a task of each row, whatever is in its cells."""

import contextlib
import datetime
import gzip
import json
import sys
import tracemalloc
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.engine.suites.data import data_file, guessed, read_rows
from evalwright.engine.suites.document import (
    ColumnChoice,
    LoadedSuite,
    SuiteReading,
    check_of,
    load_suite,
    read_data_suite,
)

NAMES = ["q.csv", "q.tsv", "q.json", "q.jsonl", "q.yaml", "q.csv.gz"]
PIECES = [
    *(
        b"question,answer\n",
        b",",
        b";",
        b"\n",
        b"\r\n",
        b"\r",
        b'"',
        b"\t",
        b"x",
        b"\0",
        b"{",
        b"[",
    ),
    *(b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b'{"question": "a"}', b"- a: b", b"\x1f\x8b\x08"),
]
CHECKS = [{"contains": "{{ expected }}"}]
MAP = {"input.question": "question", "expected": "answer"}


def load(tmp_path, **entry) -> LoadedSuite:
    entry = {"checks": CHECKS, **entry}
    document = {"evalwright": 1, "data": [entry]}
    return load_suite(document, folder=tmp_path, allow_files=True)


def csv_tasks(tmp_path, content: str | bytes, **entry) -> list:
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "questions.csv").write_bytes(data)
    return load(tmp_path, file="questions.csv", **entry).suite.tasks


def problems_of(tmp_path, content: str | bytes, **entry) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        csv_tasks(tmp_path, content, **entry)
    return [str(problem) for problem in caught.value.problems]


class TestTasks:
    def test_a_row_is_a_task_by_its_map(self, tmp_path):
        (made,) = csv_tasks(tmp_path, "question,answer\nCapital of France?,Paris\n", map=MAP)

        assert made.input == {"question": "Capital of France?"}
        assert made.reference == "Paris"
        assert made.expected.checks == [{"contains": "Paris"}]

    def test_a_map_may_nest_and_may_name_the_whole_input(self, tmp_path):
        content = "q,lang,a\nHi,en,Hello\n"
        nested = csv_tasks(
            tmp_path,
            content,
            map={"input.user.text": "q", "input.user.lang": "lang"},
            checks=[{"equals": 1}],
        )
        whole = csv_tasks(
            tmp_path, content, map={"input": "q", "expected.text": "a"}, checks=[{"equals": 1}]
        )

        assert nested[0].input == {"user": {"text": "Hi", "lang": "en"}}
        assert (whole[0].input, whole[0].reference) == ("Hi", {"text": "Hello"})

    def test_columns_stand_in_templates_by_name_or_below_row(self, tmp_path):
        (made,) = csv_tasks(
            tmp_path,
            "city,Full name,answer\nRome,Ann Lee,yes\n",
            input={"text": "{{ row['Full name'] }} in {{ city }}, {{ vars.year }}"},
            vars={"year": 2026},
        )

        assert made.input == {"text": "Ann Lee in Rome, 2026"}

    def test_an_entry_has_settings_as_a_task_has(self, tmp_path):
        (made,) = csv_tasks(
            tmp_path,
            "question,answer,tags\nHi,Hello,a;b\n",
            tags=["rows"],
            repeat=3,
            weight=2,
            threshold=0.5,
        )

        assert (made.tags, made.repeat, made.weight) == (["rows", "a", "b"], 3, 2)
        assert made.expected.threshold == 0.5

    def test_a_limit_takes_the_first_rows(self, tmp_path):
        made = csv_tasks(tmp_path, "question,answer\na,1\nb,2\nc,3\n", limit=2)

        assert [each.input["question"] for each in made] == ["a", "b"]

    def test_rows_may_stand_in_the_suite(self):
        rows = [{"question": "Hi", "answer": "Hello"}]
        (made,) = load_suite(
            {"evalwright": 1, "data": [{"rows": rows, "checks": CHECKS}]}
        ).suite.tasks

        assert made.reference == "Hello"


class TestIds:
    CONTENT = "question,answer\nHi,Hello\nBye,Ciao\n"

    def test_they_come_from_the_content_and_stay_when_rows_move(self, tmp_path):
        before = {t.input["question"]: t.task_id for t in csv_tasks(tmp_path, self.CONTENT)}
        after = {
            t.input["question"]: t.task_id
            for t in csv_tasks(tmp_path, "question,answer\nNew,Row\nBye,Ciao\nHi,Hello\n")
        }

        assert after.items() > before.items()

    @pytest.mark.parametrize(
        ("cell", "task_id"), [("A_17", "a-17"), ("HumanEval/3", "humaneval-3"), ("7", "7")]
    )
    def test_they_come_from_a_column_of_ids(self, tmp_path, cell, task_id):
        (made,) = csv_tasks(tmp_path, f"id,question,answer\n{cell},Hi,Hello\n")

        assert made.task_id == task_id

    def test_ids_in_other_letters_do_not_become_the_same(self, tmp_path):
        made = csv_tasks(tmp_path, "id,question,answer\n問1,Hi,Hello\n答1,Hi,Hello\n")

        assert len({each.task_id for each in made}) == 2

    def test_an_id_twice_is_refused_with_both_places(self, tmp_path):
        content = "id,question,answer\nx,Hi,Hello\ny,Hi,Hello\nx,Hi,Hello\n"

        (problem,) = problems_of(tmp_path, content)
        assert problem.startswith(
            "questions.csv, line 4: the id 'x' is already used by questions.csv, line 2 ("
        )

    def test_the_same_row_twice_is_told_and_numbered(self, tmp_path):
        (tmp_path / "q.csv").write_text("question,answer\nHi,Hello\nHi,Hello\nHi,Hello\n")
        wide = load(tmp_path, file="q.csv")
        first, *others = [each.task_id for each in wide.suite.tasks]

        assert others == [f"{first}-2", f"{first}-3"]
        assert wide.notices[-1] == "q.csv: the same as an earlier row: line 3, line 4"


class TestGuesses:
    @pytest.mark.parametrize(
        ("columns", "fields"),
        [
            (["question", "answer"], {"input.question": "question", "expected": "answer"}),
            (["Prompt", "Ideal"], {"input.Prompt": "Prompt", "expected": "Ideal"}),
            (["inputs", "outputs"], {"input": "inputs", "expected": "outputs"}),
            (["input", "expected_output"], {"input": "input", "expected": "expected_output"}),
            (["id", "query", "tags"], {"input.query": "query", "id": "id", "tags": "tags"}),
            (["context", "task"], {"input.task": "task", "input.context": "context"}),
            (["foo", "bar"], {}),
        ],
    )  # fmt: skip
    def test_columns_are_known_by_their_usual_names(self, columns, fields):
        assert guessed(columns) == fields

    def test_a_guess_is_told(self, tmp_path):
        (tmp_path / "q.csv").write_text("question,answer\nHi,Hello\n")

        (notice,) = load(tmp_path, file="q.csv").notices
        assert notice.startswith(
            "q.csv: by their names, input.question from question, expected from answer; "
        )

    def test_what_is_said_is_not_guessed(self, tmp_path):
        (tmp_path / "q.csv").write_text("question,answer,best\nHi,Hello,Hey\n")
        wide = load(tmp_path, file="q.csv", map={"input": "question", "expected": "best"})

        assert wide.notices == ()
        assert wide.suite.tasks[0].reference == "Hey"


class TestCellsAreData:
    @pytest.mark.parametrize(
        ("content", "answer"),
        [
            ("question,answer\nHi,=1+1\n", "=1+1"),
            ("question,answer\nHi,{{ vars }}\n", "{{ vars }}"),
            ('question,answer\nHi,"two\nlines"\n', "two\nlines"),
            ('question,answer\nHi,"a ""b"""\n', 'a "b"'),
            ("question,answer\r\nHi,Hello\r\n", "Hello"),
            ("question;answer\nHi;a, b\n", "a, b"),
            ("question\tanswer\nHi\ta, b\n", "a, b"),
            ("question,answer\nHi,007\n", "007"),
            ("question,answer\nHi,NULL\n", "NULL"),
            ("question,answer\nHi,\0x\n", "\0x"),
            ("question,answer\nHi,Grüße 👋\n", "Grüße 👋"),
            ("question,answer,\nHi,Hello,,\n", "Hello"),
            (" question , answer \nHi,Hello\n", "Hello"),
            ("question,answer\n\nHi,Hello\n\n", "Hello"),
        ],
    )
    def test_a_cell_stays_as_it_is(self, tmp_path, content, answer):
        (made,) = csv_tasks(tmp_path, content)

        assert made.reference == answer

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
    def test_a_mark_at_the_beginning_says_how_text_is_encoded(self, tmp_path, encoding):
        (made,) = csv_tasks(tmp_path, "question,answer\nHi,Grüße\n".encode(encoding))

        assert made.reference == "Grüße"

    def test_another_encoding_may_be_named(self, tmp_path):
        content = "question,answer\nHi,Grüße\n".encode("cp1252")

        assert csv_tasks(tmp_path, content, encoding="cp1252")[0].reference == "Grüße"

    def test_cells_that_are_left_out_at_the_end_are_empty(self, tmp_path):
        (made,) = csv_tasks(
            tmp_path, "question,answer,note\nHi,Hello\n", map={**MAP, "tags": "note"}
        )

        assert made.tags == []

    def test_a_cell_may_be_huge(self, tmp_path):
        (made,) = csv_tasks(tmp_path, f"question,answer\nHi,{'x' * 1_000_000}\n")

        assert len(made.reference) == 1_000_000

    @given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=5))
    def test_what_is_written_as_jsonl_is_read_back(self, tmp_path_factory, pairs):
        path = tmp_path_factory.mktemp("rows") / "q.jsonl"
        path.write_text("".join(json.dumps({"q": q, "a": a}) + "\n" for q, a in pairs))

        assert [(row["q"], row["a"]) for _, row in read_rows(data_file(path))] == pairs


class TestKindsOfFiles:
    ROWS = [{"question": "Hi", "answer": "Hello"}, {"question": "Bye", "answer": "Ciao"}]  # noqa: RUF012

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("q.json", json.dumps(ROWS)),
            ("q.json", json.dumps({"data": ROWS})),
            ("q.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n"),
            ("q.ndjson", "\n\n".join(map(json.dumps, ROWS))),
            ("q.yaml", "- {question: Hi, answer: Hello}\n- {question: Bye, answer: Ciao}\n"),
            ("q.tsv", "question\tanswer\nHi\tHello\nBye\tCiao\n"),
        ],
    )
    @pytest.mark.parametrize("is_zipped", [False, True])
    def test_they_are_read_by_their_endings(self, tmp_path, name, content, is_zipped):
        data = content.encode()
        name = f"{name}.gz" if is_zipped else name
        (tmp_path / name).write_bytes(gzip.compress(data) if is_zipped else data)

        assert [each.reference for each in load(tmp_path, file=name).suite.tasks] == [
            "Hello",
            "Ciao",
        ]

    def test_parquet_is_read_with_the_extra(self, tmp_path):
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(self.ROWS), tmp_path / "q.parquet")

        assert len(load(tmp_path, file="q.parquet").suite.tasks) == 2

    def test_what_is_no_parquet_is_refused_in_one_line(self, tmp_path):
        (tmp_path / "q.parquet").write_bytes(b"no such thing" * 9)

        with pytest.raises(InvalidDocument, match=r"q\.parquet.*not a Parquet file: \S"):
            load(tmp_path, file="q.parquet")

    def test_a_data_set_of_hugging_face_is_read_as_it_arrives(self, tmp_path, monkeypatch):
        asked = []

        def load_dataset(*names, **options):
            asked.append((names, options))
            return iter([{"question": "Hi", "answer": "Hello", "day": datetime.date(2026, 1, 2)}])

        library = types.SimpleNamespace(load_dataset=load_dataset)
        monkeypatch.setitem(sys.modules, "datasets", library)
        (made,) = load(
            tmp_path, huggingface="acme/greetings", subset="short", input="{{ day }}"
        ).suite.tasks

        assert asked == [(("acme/greetings", "short"), {"split": "test", "streaming": True})]
        assert (made.input, made.reference) == ("2026-01-02", "Hello")

    @pytest.mark.parametrize(
        ("entry", "library"),
        [({"file": "q.parquet"}, "pyarrow"), ({"huggingface": "openai/gsm8k"}, "datasets")],
    )
    def test_without_the_extra_the_remedy_is_told(self, tmp_path, monkeypatch, entry, library):
        (tmp_path / "q.parquet").write_bytes(b"PAR1")
        monkeypatch.setitem(sys.modules, library, None)

        with pytest.raises(InvalidDocument, match=r"pip install 'PATH_TO_THE_CLONE\[data\]'"):
            load(tmp_path, **entry)


class TestBadRows:
    @pytest.mark.parametrize(
        ("content", "told"),
        [
            ("question,answer\nHi,a,b\n", "line 2, column answer: 3 cells, but the first line"),
            ("question,answer\nHi,x\nHo,\n", "line 3, column answer, $.data[0].checks[0]"),
            ('question,answer\nHi,"x"y\n', "line 2: text after a closing quote"),
            ('question,answer\nHi,"x\n', "a quote is not closed"),
            ("question,question\nHi,x\n", "line 1: two columns are called 'question'"),
            ("question,answer\n", "there are no rows"),
            ("", "the file is empty"),
            ("question,answer\nHi,x\nHo,Gr\xfc\xdfe\n".encode("latin-1"), "line 3: not UTF-8 text"),
        ],
    )  # fmt: skip
    def test_file_line_and_column_are_told(self, tmp_path, content, told):
        (problem,) = problems_of(tmp_path, content)

        assert problem.startswith("questions.csv")
        assert told in problem

    def test_a_column_that_is_not_there_is_told_once_with_the_one_that_was_meant(self, tmp_path):
        content = "question,answer\nHi,x\nHo,y\n"

        (problem,) = problems_of(tmp_path, content, map={"input": "qestion"})
        assert problem == (
            "questions.csv, line 2, column qestion: there is no column 'qestion', for input "
            "(did you mean question?)"
        )

    def test_without_a_usual_name_the_columns_are_listed(self, tmp_path):
        (problem,) = problems_of(tmp_path, "foo,bar\n1,2\n")

        assert "of foo, bar (say which it is with map" in problem

    def test_a_file_that_is_not_there_is_told_with_a_near_name(self, tmp_path):
        (tmp_path / "questions.csv").write_text("question\n")

        with pytest.raises(InvalidDocument, match=r"did you mean questions\.csv"):
            load(tmp_path, file="question.csv")

    def test_a_line_without_end_is_refused_before_it_fills_the_memory(self, tmp_path, monkeypatch):
        monkeypatch.setattr("evalwright.engine.suites.data.MOST_CELL", 1000)
        (problem,) = problems_of(tmp_path, "question,answer\nHi," + "x" * 5000)

        assert "line 2: longer than 1,000 characters" in problem

    @given(content=st.lists(st.sampled_from(PIECES), max_size=30), name=st.sampled_from(NAMES))
    @settings(max_examples=200)
    def test_any_content_is_read_or_refused(self, tmp_path_factory, content, name):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(b"".join(content))
        with contextlib.suppress(InvalidDocument):
            load(path.parent, file=name)

    def test_a_broken_archive_is_told(self, tmp_path):
        (tmp_path / "q.csv.gz").write_bytes(gzip.compress(b"question,answer\nHi,x\n" * 50)[:-12])

        with pytest.raises(InvalidDocument, match=r"q\.csv\.gz: cannot be read"):
            load(tmp_path, file="q.csv.gz")


class TestOnAHost:
    @pytest.mark.parametrize("entry", [{"file": "/etc/passwd"}, {"huggingface": "a/b"}])
    def test_no_file_is_read(self, entry):
        document = {"evalwright": 1, "data": [{**entry, "checks": [{"equals": 1}]}]}

        with pytest.raises(InvalidDocument, match="files are not read here"):
            load_suite(document)


class TestOneLine:
    def test_columns_and_checks_make_a_suite(self, tmp_path):
        path = tmp_path / "questions.csv"
        path.write_text("question,answer,extra\nHi,Hello,x\n")
        choice = ColumnChoice(inputs=("question", "extra"), expected="answer", checks=("contains",))
        wide = read_data_suite(str(path), choice)
        (made,) = wide.suite.tasks

        assert wide.suite.suite_id == "local.evals.questions"
        assert made.input == {"question": "Hi", "extra": "x"}
        assert made.expected.checks == [{"contains": "Hello"}]

    @pytest.mark.parametrize(
        ("text", "check"),
        [
            ("contains", {"contains": "{{ expected }}"}),
            ("json", {"json": {"equals": "{{ expected }}"}}),
            ("contains=shipped", {"contains": "shipped"}),
            ("equals=3", {"equals": 3}),
            ('max={"cost_usd": 1}', {"max": {"cost_usd": 1}}),
            (r"regex=^A=\d+$", {"regex": r"^A=\d+$"}),
        ],
    )
    def test_a_check_is_a_name_or_a_name_with_its_argument(self, text, check):
        assert check_of(text) == check

    def test_without_a_check_every_answer_would_pass(self, tmp_path):
        with pytest.raises(BadInput, match="--check contains"):
            read_data_suite("questions.csv", ColumnChoice())

    def test_problems_are_told_in_the_words_of_the_command_line(self, tmp_path):
        path = tmp_path / "q.csv"
        path.write_text("question\nHi\n")

        with pytest.raises(InvalidDocument) as caught:
            read_data_suite(str(path), ColumnChoice(checks=("contains",)))

        assert str(caught.value).startswith(f"{path}: line 2, --check: expected is undefined")


def test_rows_are_made_to_tasks_one_by_one(tmp_path):
    def peak(count: int) -> int:
        with (tmp_path / "q.csv").open("w") as file:
            file.write("question,answer\n")
            file.writelines(f"{'Question ' * 20}{n},Answer {n}\n" for n in range(count))
        document = {"evalwright": 1, "data": [{"file": "q.csv", "checks": CHECKS}]}
        reading = SuiteReading(document, tmp_path, allow_code=True, allow_files=True)
        tracemalloc.start()
        assert sum(1 for _ in reading.tasks()) == count
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    peak(1)
    few, many = peak(500), peak(5000)

    assert many - few < 4500 * 200  # an id for each row, not the row
