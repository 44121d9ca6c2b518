"""`evalwright db export` and `import`: a run in a file, the same in every log."""

import hashlib
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import BadInput, InvalidDocument
from evalwright.host.runs.export import export_run, import_run, parse_transfer
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import Evalwright, subject

NOTE = {
    "annotationId": "ann_1",
    "target": {"runId": "", "eventId": ""},
    "signal": {"kind": "correction", "correction": "0.5"},
    "actor": {"principalRef": "key:abc"},
    "createdAt": "2026-01-01T00:00:00.000000Z",
}


def annotate(log: SqliteLog, run_id: str, number: int = 1) -> None:
    target = {"runId": run_id, "eventId": f"{run_id}:3"}
    body = json.dumps(
        NOTE | {"annotationId": f"ann_{number}", "target": target}, separators=(",", ":")
    )
    change = RecordChange("annotation", "local", f"{run_id}/ann_{number}", body.encode())
    log.records.write([change]).result()


class Recorded:
    """A log with one run, and its file."""

    def __init__(self, command: Evalwright) -> None:
        suite = a_suite([a_task(input="x" * 6000), a_task("task-2", value="no")])
        command(
            "run", command.suite(suite), "--agent", subject("answers.py:yes"), "--tag", "nightly"
        )
        assert command.db is not None
        log = SqliteLog(command.db)
        (self.run_id,) = log.run_ids()
        annotate(log, self.run_id)
        self.file = b"".join(export_run(log, self.run_id))
        log.close()
        self.db = command.db
        self.summary = command("show", self.run_id, "--json").out


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(Evalwright(tmp_path_factory.mktemp("recorded")))


@pytest.fixture
def other(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "other.db")
    yield log
    log.close()


def sealed(lines: list[bytes]) -> bytes:
    """Lines with the digest that fits them: what a forger would write."""
    body = b"".join(line + b"\n" for line in lines)
    return body + b'{"sha256":"%s"}\n' % hashlib.sha256(body).hexdigest().encode()


def test_a_run_moves_to_another_log_with_everything(
    evalwright: Evalwright, recorded: Recorded
) -> None:
    evalwright.db = recorded.db
    exported = evalwright("db", "export", "latest", "-o", str(evalwright.folder / "run.jsonl"))
    assert (exported.code, exported.out) == (0, "")
    file = evalwright.folder / "run.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = evalwright("db", "export", "latest", "-o", "run.jsonl")
    assert again.err.startswith(f"run.jsonl: run {recorded.run_id}, in place of what was there")
    assert file.read_bytes() == recorded.file == evalwright("db", "export", "latest").out.encode()

    evalwright.db = evalwright.folder / "new.db"
    imported = evalwright("db", "import", "run.jsonl")
    assert (imported.code, imported.err) == (0, "")
    assert imported.out.startswith(f"added run {recorded.run_id}: ")
    assert evalwright("show", recorded.run_id, "--json").out == recorded.summary
    assert evalwright("replay", recorded.run_id).code == 0
    assert evalwright("db", "export", recorded.run_id).out.encode() == recorded.file
    assert evalwright("db", "check", "--replay").code == 0
    again = evalwright("db", "import", "run.jsonl", "--json").json()
    assert again == {
        "runId": recorded.run_id,
        "events": recorded.file.count(b"\n") - 3,
        "added": False,
        "annotationsAdded": 0,
    }


def test_the_same_run_again_adds_only_new_annotations(recorded: Recorded, other: SqliteLog) -> None:
    transfer = parse_transfer(recorded.file, "run.jsonl")
    assert import_run(other, transfer, "") == {"added": True, "annotationsAdded": 1}
    assert import_run(other, transfer, "") == {"added": False, "annotationsAdded": 0}
    annotate(other, recorded.run_id, 2)
    longer = parse_transfer(b"".join(export_run(other, recorded.run_id)), "run.jsonl")
    gone = RecordChange("annotation", "local", f"{recorded.run_id}/ann_2", None)
    other.records.write([gone]).result()
    assert import_run(other, longer, "") == {"added": False, "annotationsAdded": 1}


def test_another_run_with_the_same_id_is_refused_and_nothing_is_changed(
    recorded: Recorded, other: SqliteLog
) -> None:
    lines = recorded.file.splitlines()[:-1]
    lines[2] = lines[2].replace(b'"timestamp":"20', b'"timestamp":"19')
    import_run(other, parse_transfer(recorded.file, ""), "")
    with pytest.raises(InvalidDocument, match=r"run.jsonl: line 3: the log has another run"):
        import_run(other, parse_transfer(sealed(lines), ""), "run.jsonl")
    assert b"".join(export_run(other, recorded.run_id)) == recorded.file


def test_a_pruned_run_can_be_imported_again(recorded: Recorded, other: SqliteLog) -> None:
    transfer = parse_transfer(recorded.file, "")
    import_run(other, transfer, "")
    other.upkeep.prune([recorded.run_id], "old", ("annotation",))
    assert import_run(other, transfer, "") == {"added": True, "annotationsAdded": 1}
    assert b"".join(export_run(other, recorded.run_id)) == recorded.file
    assert other.upkeep.tombstones("run_") == []


def test_only_a_run_that_has_ended_is_exported(recorded: Recorded, other: SqliteLog) -> None:
    started = parse_transfer(recorded.file, "").events[0]
    other.append("run_open", [NewEvent(started.type, None, started.at_us, started.body)])
    other.flush("run_open").result()
    with pytest.raises(BadInput, match=r"run_open has not ended.*--resume run_open"):
        export_run(other, "run_open")


Edit = Callable[[list[bytes]], list[bytes] | None]


def line(number: int, before: bytes, after: bytes) -> Edit:
    """Change a text in a line, which must be there."""

    def edit(lines: list[bytes]) -> None:
        assert before in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(before, after, 1)

    return edit


def find(lines: list[bytes], text: bytes) -> int:
    return next(number for number, each in enumerate(lines) if text in each)


def swap_score(lines: list[bytes]) -> None:
    place = find(lines, b'"eval.scored"')
    lines[place] = lines[place].replace(b'"score":1.0', b'"score":0.5')


def twice(lines: list[bytes]) -> None:
    lines.insert(3, lines[3])
    renumber(lines, 1)


def renumber(lines: list[bytes], more: int) -> None:
    header = json.loads(lines[0])
    lines[0] = json.dumps(header | {"events": header["events"] + more}).encode()


def without(number: int) -> Edit:
    def edit(lines: list[bytes]) -> None:
        del lines[number - 1]
        renumber(lines, -1)

    return edit


HOSTILE: dict[str, tuple[Edit, str]] = {
    "another format": (line(1, b"evalwright-run", b"evalwright-ruin"), "line 1: not the first"),
    "a newer version": (line(1, b'"version":1', b'"version":2'), "line 1: version 2 of the format"),
    "an unknown field": (line(1, b"{", b'{"more":1,'), "line 1: not the first line"),
    "a bad run id": (line(1, b'"runId":"run_', b'"runId":"run 1_'), "line 1: not the first line"),
    "a path": (line(1, b'"runId":"run_', b'"runId":"../run_'), "line 1: not the first line"),
    "no tenant": (line(1, b'"partition":"local', b'"partition":"lo cal'), "line 1: not the first"),
    "too many lines": (line(1, b'"events":', b'"events":1'), "whole lines, but its first line"),
    "another tenant": (line(2, b'"payload":{', b'"payload":{"owner":{"tenant":"acme"},'), "line 1"),
    "not JSON": (line(3, b"{", b"["), "line 3: not valid JSON"),
    "an unknown key": (line(3, b"{", b'{"x":1,'), "line 3: the event is not written as"),
    "a duplicate key": (line(3, b"{", b'{"runId":"run_x",'), "line 3"),
    "another run": (line(3, b'"runId":"run_', b'"runId":"ruin_'), "line 3: runId is 'ruin_"),
    "another event id": (
        line(3, b':1","runId"', b':9","runId"'),
        "line 3: the event is not written",
    ),
    "a time with a zone": (
        line(3, b'Z","sequence"', b'+00:00","sequence"'),
        "line 3: the event is",
    ),
    "no time": (line(3, b'"timestamp":"2', b'"timestamp":"x2'), "line 3"),
    "a gap": (without(4), "line 4: sequence is 3, expected 2"),
    "an event twice": (twice, "line 5: "),
    "no start": (without(2), "line 2: sequence is 1, expected 0"),
    "a payload of another type": (
        line(3, b'"taskCount":2', b'"taskCount":"2"'),
        "line 3 $.payload",
    ),
    "a forged score": (swap_score, "do not lead to the summary it recorded"),
    "an annotation of another run": (
        lambda lines: line(len(lines), b'"runId":"run_', b'"runId":"ruin_')(lines),
        "an annotation of run 'ruin_",
    ),
    "an annotation of no event": (
        lambda lines: line(len(lines), b':3"', b':99999"')(lines),
        "which the run does not have",
    ),
    "an annotation with a path": (
        lambda lines: line(len(lines), b'"annotationId":"', b'"annotationId":"../')(lines),
        "no annotation has such an id",
    ),
    "an annotation of no time": (
        lambda lines: line(len(lines), b'"createdAt":"2', b'"createdAt":"x2')(lines),
        "not a time of an annotation",
    ),
    "an annotation nested too deeply": (
        lambda lines: lines.__setitem__(-1, b'{"annotation":' + b'{"a":' * 5000 + b"}" * 5001),
        "not an annotation",
    ),
    "a rating of 99": (
        lambda lines: line(len(lines), b'"correction","', b'"rating","rating":99,"')(lines),
        "a rating is 1 to 5",
    ),
    "not an annotation": (
        lambda lines: line(len(lines), b'"correction","', b'"opinion","')(lines),
        "not an annotation",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_line_and_rule(recorded: Recorded, name: str) -> None:
    edit, told = HOSTILE[name]
    lines = recorded.file.splitlines()[:-1]
    edit(lines)
    with pytest.raises(InvalidDocument) as refused:
        parse_transfer(sealed(lines), "run.jsonl")
    assert told in str(refused.value)
    assert str(refused.value).startswith("run.jsonl: line ")


def test_a_file_that_was_cut_or_changed_is_refused(recorded: Recorded) -> None:
    size = len(recorded.file)
    for cut in (0, 1, 60, size // 2, size - 70, size - 1):
        with pytest.raises(InvalidDocument, match=r"^run\.jsonl: line "):
            parse_transfer(recorded.file[:cut], "run.jsonl")
    changed = recorded.file.replace(b"nightly", b"Nightly")
    with pytest.raises(InvalidDocument, match="do not have this sha256: the file was changed"):
        parse_transfer(changed, "run.jsonl")
    with pytest.raises(InvalidDocument):
        parse_transfer(recorded.file + b"{}\n", "run.jsonl")
    for rubbish in (b"\x00\xff" * 50, b"[" * 100_000, b"\n" * 10):
        with pytest.raises(InvalidDocument, match="line 1"):
            parse_transfer(rubbish, "run.jsonl")


def test_the_command_refuses_with_exit_code_2_and_makes_no_log(
    evalwright: Evalwright, recorded: Recorded
) -> None:
    (evalwright.folder / "cut.jsonl").write_bytes(recorded.file[:-100])
    refused = evalwright("db", "import", "cut.jsonl")
    assert refused.code == 2
    assert "evalwright: cut.jsonl: line " in refused.err
    assert evalwright("db", "import", "missing.jsonl").code == 2
    assert evalwright.db is not None
    assert not evalwright.db.exists()
    assert evalwright("db", "export", "run_x", "-o", "no/where").code == 2


def test_a_run_of_a_host_keeps_its_owner(recorded: Recorded, other: SqliteLog) -> None:
    owned = json.loads(recorded.file.splitlines()[1])
    owned["payload"]["owner"] = {"tenant": "acme", "workspace": "blue"}
    lines = recorded.file.splitlines()[:-1]
    lines[0] = lines[0].replace(b'"partition":"local"', b'"partition":"acme/blue"')
    lines[1] = json.dumps(owned, separators=(",", ":")).encode()
    import_run(other, parse_transfer(sealed(lines), ""), "")
    assert other.for_tenant("acme/blue").run_ids() == [recorded.run_id]
    assert other.for_tenant("local").run_ids() == []
    for _ in range(2):
        with pytest.raises(
            InvalidDocument, match=r"line 1: the log has a run .* of another tenant"
        ):
            import_run(other, parse_transfer(recorded.file, ""), "run.jsonl")
        other.upkeep.prune([recorded.run_id], "old", ())  # its id stays that of the tenant
    assert len(other.upkeep.tombstones("")) == 1
