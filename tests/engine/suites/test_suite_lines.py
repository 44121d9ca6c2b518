"""The lines of a suite that its tasks stand on, for notes beside the code."""

import pytest

from evalwright.engine.suites.problems import lines_of_tasks


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (
            b"tasks:\n  - id: one\n    input: x\n  - {input: y, id: two}\n",
            {"": 1, "one": 2, "two": 4},
        ),
        (
            b'{"name": "x",\n "tasks": [\n  {"taskId": "one"},\n  {"input": "x"}]}',
            {"": 1, "one": 3},
        ),
        (b"name: x\ndata: [cases.csv]\n", {"": 2}),
        (b"name: x\ntasks: many\n", {"": 1}),
        (b"[]", {"": 1}),
        (b"", {"": 1}),
    ],
)
def test_each_task_has_its_line_and_what_has_no_id_that_of_the_data(
    source: bytes, lines: dict[str, int]
) -> None:
    assert lines_of_tasks(source) == lines
