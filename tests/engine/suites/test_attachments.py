"""Images, sounds and files of inputs: read and kept once, given to agents with their bytes."""

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import evalwright as ew
from evalwright.contracts.attachments import (
    MOST_BYTES,
    Attached,
    AttachedFile,
    content_type,
    with_data,
)
from evalwright.contracts.errors import InvalidDocument
from evalwright.engine.suites.document import load_suite
from evalwright.engine.suites.export import to_document, to_portable
from evalwright.models import anthropic, openai
from evalwright.models.protocol import ChatMessage, ModelError, Request
from evalwright.models.quirks import Quirks
from evalwright.models.request_key import RequestKeys, semantic_call
from evalwright.store.location import opened_log


def a_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0abc")) + chunk(b"IEND", b"")
    )


PNG, WAV, PDF = a_png(), b"RIFF\x24\0\0\0WAVEfmt ", b"%PDF-1.7\n"
ASKED = ["What is this?", {"image": "photo.png"}]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "large.bin").write_bytes(bytes(MOST_BYTES + 1))
    return tmp_path


def document(*inputs: Any) -> dict[str, Any]:
    return {
        "evalwright": 1,
        "tasks": [{"input": each, "checks": [{"contains": "a"}]} for each in inputs],
    }


def loaded(folder: Path, *inputs: Any, allow_files: bool = True) -> Any:
    return load_suite(document(*inputs), folder=folder, allow_files=allow_files).suite


def test_a_file_is_kept_once_and_inputs_refer_to_it(folder: Path) -> None:
    chat = {"messages": [{"role": "user", "content": ASKED}, {"role": "user", "content": "So?"}]}
    suite = loaded(folder, ASKED, chat, ["Read it.", {"file": "notes.txt"}])
    (text, part), said, _ = (task.input for task in suite.tasks)
    assert text == "What is this?"
    digest = part["image"]["sha256"]
    assert part["image"] == {
        "name": "photo.png",
        "type": "image/png",
        "bytes": len(PNG),
        "sha256": digest,
    }
    assert said["messages"][0]["content"][1] == part
    assert len(suite.attachments) == 2
    given = with_data(said, suite.attachments)["messages"][0]["content"][1]["image"]
    assert base64.b64decode(given["data"]) == PNG
    written = to_document(suite)
    assert "sha256" not in json.dumps(written)
    assert load_suite(written).suite.tasks[0].input == suite.tasks[0].input  # where no file is read


@pytest.mark.parametrize(
    "given",
    [
        [{"file": "a.py"}, {"file": "b.py"}],  # rows of data: there is no text among them
        ["text", {"image": "a.png", "size": 2}],
        {"image": "photo.png"},
        ["a", "b"],
    ],
)
def test_what_is_no_message_is_left_as_it_is(folder: Path, given: Any) -> None:
    suite = loaded(folder, given)
    assert (suite.tasks[0].input, suite.attachments) == (given, {})


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            {"image": "gone.png"},
            "gone.png: cannot be read: No such file or directory (it is",
        ),
        ({"image": "notes.txt"}, "notes.txt: it is no image that is known by its first bytes"),
        ({"file": "large.bin"}, "large.bin: larger than 5 MiB (make it smaller)"),
        (
            {"file": "../secret.txt"},
            "outside of the suite's folder (copy it into the folder)",
        ),
        ({"file": "/etc/hostname"}, "it is outside of the suite's folder"),
        ({"audio": {"data": "!"}}, "its data are not base64"),
        ({"audio": 1}, "it is no audio (name its file, or write {data: BASE64, name: photo.png})"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_place_and_remedy(
    folder: Path, part: Any, message: str
) -> None:
    with pytest.raises(InvalidDocument) as refused:
        loaded(folder, ["Look:", part])
    (kind,) = part
    assert f"$.tasks[0].input[1].{kind}: " in str(refused.value)
    assert message in str(refused.value)


def test_hosts_read_no_files_and_take_data(folder: Path) -> None:
    with pytest.raises(InvalidDocument, match="files are not read here"):
        loaded(folder, ASKED, allow_files=False)
    data = {"data": base64.b64encode(PNG).decode(), "name": "../photo.png"}
    suite = loaded(folder, ["Look:", {"image": data}], allow_files=False)
    assert suite.tasks[0].input[1]["image"]["name"] == "photo.png"


def test_a_link_does_not_lead_out_of_the_folder(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "link.png").symlink_to(folder / "photo.png")
    with pytest.raises(InvalidDocument, match="outside of the suite's folder"):
        loaded(inner, ["Look:", {"image": "link.png"}])


@pytest.mark.parametrize(
    ("kind", "content", "found"),
    [
        ("image", PNG, "image/png"),
        ("image", b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("image", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("image", b"<svg onload='alert(1)'>", None),
        ("audio", WAV, "audio/wav"),
        ("audio", b"ID3\x03", "audio/mpeg"),
        ("audio", PNG, None),
        ("file", PDF, "application/pdf"),
        ("file", "Ärger".encode(), "text/plain"),
        ("file", b"\xff\0", "application/octet-stream"),
    ],
)
def test_what_a_file_is_is_told_by_its_bytes(kind: Any, content: bytes, found: str | None) -> None:
    assert content_type(kind, content) == found


@pytest.mark.parametrize("isolate", [False, True])
def test_an_agent_gets_the_bytes_and_the_log_has_them_once(folder: Path, *, isolate: bool) -> None:
    (folder / "seeing.py").write_text(
        "import base64\n"
        "def answer(task):\n"
        "    return len(base64.b64decode(task.input[1]['image']['data']))\n"
    )
    tasks = [ew.Task(f"t{n}", input=ASKED, checks=[ew.equals(len(PNG))]) for n in range(3)]
    run = ew.run(tasks, "seeing.py:answer", db=folder / "a.db", isolate=isolate)
    assert run.passed, run.report()
    with opened_log(str(folder / "a.db")) as log:
        events = b"".join(event.body for event in log.read(run.id))
    assert events.count(base64.b64encode(PNG)) == 1


def attachment(kind: Any, content: bytes, name: str = "a") -> AttachedFile:
    found = content_type(kind, content)
    assert found is not None
    return AttachedFile(kind, name, found, base64.b64encode(content).decode())


def sent(dialect: Any, *attachments: AttachedFile) -> list[Any]:
    request = Request((ChatMessage("user", "Look.", attachments=attachments),))
    body = json.loads(dialect.encode_request(request, "m", Quirks()))
    parts: list[Any] = body["messages"][0]["content"]
    return parts


def test_each_provider_gets_attachments_in_its_own_form() -> None:
    data = base64.b64encode(PNG).decode()
    files = [attachment("image", PNG), attachment("file", PDF, "a.pdf"), attachment("file", b"hi")]
    image, pdf, text, said = sent(openai, *files)
    assert image == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    assert (pdf["type"], pdf["file"]["filename"]) == ("file", "a.pdf")
    assert (text["text"], said) == ("a:\nhi", {"type": "text", "text": "Look."})
    (sound, _) = sent(openai, attachment("audio", WAV))
    assert sound["input_audio"]["format"] == "wav"
    image, pdf, text, said = sent(anthropic, *files)
    source = {"type": "base64", "media_type": "image/png", "data": data}
    assert image == {"type": "image", "source": source}
    assert (pdf["type"], pdf["source"]["media_type"]) == ("document", "application/pdf")
    assert (text["source"]["data"], said["text"]) == ("hi", "Look.")


@pytest.mark.parametrize(
    ("dialect", "unfit"),
    [
        (anthropic, attachment("audio", WAV)),
        (anthropic, attachment("file", b"\xff\0")),
        (openai, attachment("audio", b"fLaC")),
        (openai, attachment("file", b"\xff\0")),
    ],
)
def test_what_a_provider_does_not_take_is_not_sent(dialect: Any, unfit: AttachedFile) -> None:
    with pytest.raises(ModelError, match=f"takes no {unfit.kind} such as a \\({unfit.type}\\)"):
        sent(dialect, unfit)


def test_a_cassette_tells_images_apart_by_their_content() -> None:
    def key(*attachments: AttachedFile) -> str:
        request = Request((ChatMessage("user", "Look.", attachments=attachments),))
        assert RequestKeys("openai:m").text(request)
        assert semantic_call("openai:m", request)
        return RequestKeys("openai:m").key(request)

    assert len({key(), key(attachment("image", PNG)), key(attachment("image", PNG + b"x"))}) == 3


def test_an_exported_suite_says_that_it_has_no_files(folder: Path) -> None:
    portable = to_portable(loaded(folder, ASKED))
    assert portable.suite.attachments == {}
    assert any("files of the input" in each.what for each in portable.losses)


def test_an_unknown_hash_gives_no_data() -> None:
    given = ["Look:", {"image": {"sha256": "0" * 64}}]
    assert with_data(given, {"1": Attached("image/png", "")}) == given
