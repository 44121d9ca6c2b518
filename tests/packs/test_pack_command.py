"""`evalwright pack`, and `evalwright run` on a pack: what is printed, kept and refused."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packing import (
    DESK,
    PACK,
    SIGNING,
    Keys,
    a_pack_agent,
    an_archive,
    pack_files,
    signed_files,
    write_folder,
)

import evalwright as ew
from evalwright.agents.packs.build import build_pack
from evalwright.agents.packs.pack import Pack
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import Evalwright, Finished

MODEL = '- json: "yes"\n'


class Bench:
    """A signed pack on disk, and the command beside it."""

    def __init__(self, evalwright: Evalwright, folder: Path) -> None:
        self.command = evalwright
        self.folder = folder
        self.db = folder / "host.db"
        self.keys = Keys(folder)
        write_folder(folder / "shop", pack_files(signing=SIGNING))
        self.pack: Pack = build_pack(folder / "shop", self.keys.private)
        self.file = folder / "shop.tgz"
        self.file.write_bytes(self.pack.archive)
        self.trust = ["--key", str(self.keys.public), "--integrity", self.pack.integrity]

    def verify(self, *arguments: str) -> Finished:
        return self.command("pack", "verify", str(self.file), *arguments)

    def install(self, *arguments: str, tenant: str = "acme") -> Finished:
        line = ["pack", "install", str(self.file), "--tenant", tenant, "--db", str(self.db)]
        return self.command(*line, *arguments)

    def kept(self, kind: str, tenant: str = "acme") -> dict[str, bytes]:
        log = SqliteLog(self.db)
        try:
            return {record.key: record.body for record in log.records.list(kind, tenant)}
        finally:
            log.close()


@pytest.fixture
def bench(evalwright: Evalwright, tmp_path: Path) -> Bench:
    return Bench(evalwright, tmp_path)


def another_pack(**fields: Any) -> bytes:
    return an_archive(pack_files(**fields))


# build


def test_build_writes_the_archive_and_tells_name_size_and_integrity(bench: Bench) -> None:
    built = bench.command("pack", "build", "shop", "--key", str(bench.keys.private))
    file = bench.folder / f"{PACK}-1.0.0.tgz"
    assert (built.code, built.err) == (0, "")
    assert built.out == (
        f"{PACK}@1.0.0 in {file.name}, {len(bench.pack.archive)} bytes, signed\n"
        f"{bench.pack.integrity}\n"
    )
    assert file.read_bytes() == bench.pack.archive


def test_build_tells_it_as_json(bench: Bench) -> None:
    write_folder(bench.folder / "plain", pack_files())
    told = bench.command("pack", "build", "plain", "--out", "plain.tgz", "--json").json()
    assert told.keys() == {"pack", "file", "integrity", "size", "signed"}
    assert (told["pack"], told["file"], told["signed"]) == (f"{PACK}@1.0.0", "plain.tgz", False)


def test_build_writes_nothing_when_something_is_wrong(bench: Bench) -> None:
    (bench.folder / "shop" / "evals" / "desk.json").write_text("{}")
    built = bench.command(
        "pack", "build", "shop", "--key", str(bench.keys.private), "--out", "new.tgz"
    )
    assert (built.code, built.out) == (2, "")
    assert "evals/desk.json: $: " in built.err
    assert not (bench.folder / "new.tgz").exists()


# verify


def test_verify_tells_each_check_and_leaves_with_0_when_all_hold(bench: Bench) -> None:
    told = bench.verify(*bench.trust)
    assert told.code == 0
    assert told.out.splitlines()[-1] == "VERIFIED"
    assert told.out.count("  passed  ") == 5


def test_verify_leaves_with_1_when_a_check_fails(bench: Bench) -> None:
    other = Keys(bench.folder, "other")
    told = bench.verify("--key", str(other.public), "--integrity", bench.pack.integrity)
    assert told.code == 1
    assert "  failed       signature  " in told.out
    assert told.out.splitlines()[-2:] == ["NOT VERIFIED", "exit 1: not verified"]


def test_verify_does_not_pass_what_it_could_not_check_unless_told_to(bench: Bench) -> None:
    told = bench.verify()
    assert told.code == 1
    assert told.out.count("  not checked  ") == 2
    allowed = bench.verify("--allow-unsigned")
    assert (allowed.code, allowed.out) == (0, told.out.replace("exit 1: not verified\n", ""))
    assert allowed.out.splitlines()[-1] == "NOT VERIFIED"


def test_verify_tells_it_as_json(bench: Bench) -> None:
    told = bench.verify("--json", *bench.trust).json()
    assert (told["pack"], told["verified"]) == (f"{PACK}@1.0.0", True)
    assert told["integrity"] == bench.pack.integrity
    assert {check["status"] for check in told["checks"]} == {"passed"}
    bench.file.write_bytes(b"nonsense")
    broken = bench.verify("--json", *bench.trust)
    assert broken.code == 1
    assert (broken.json()["pack"], broken.json()["verified"]) == (None, False)


def test_the_integrity_may_come_from_a_registrys_file(bench: Bench) -> None:
    registry = bench.folder / "registry.json"
    registry.write_text(json.dumps({"name": PACK, "integrity": bench.pack.integrity}))
    told = bench.verify("--key", str(bench.keys.public), "--integrity", str(registry))
    assert told.code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--integrity", "sha256-short"], "--integrity sha256-short: not an integrity value"),
        (["--integrity", "none.json"], "none.json: cannot be read"),
        (["--integrity", "empty.json"], "--integrity empty.json: not an integrity value"),
        (["--key", "none.pem"], "none.pem: cannot be read"),
        (["--key", "empty.json"], "empty.json: not a PEM public key"),
    ],
)
def test_trust_that_cannot_be_read_leaves_with_2(
    bench: Bench, arguments: list[str], told: str
) -> None:
    (bench.folder / "empty.json").write_text("{}")
    refused = bench.verify(*arguments)
    assert (refused.code, refused.out) == (2, "")
    assert told in refused.err


def test_an_archive_that_cannot_be_read_leaves_with_2(bench: Bench) -> None:
    bench.file.unlink()
    assert bench.verify().code == 2
    assert "shop.tgz: cannot be read" in bench.verify().err


# install


def test_install_keeps_the_pack_its_suites_and_its_agents_for_the_tenant(bench: Bench) -> None:
    installed = bench.install(*bench.trust)
    assert (installed.code, installed.err) == (0, "")
    assert installed.out == (
        f"{PACK}@1.0.0 installed for tenant acme, verified\n"
        f"  {DESK}, evaluated by acme.shop.evals.desk@1.0.0\n"
    )
    assert bench.kept("pack") == {f"{PACK}@1.0.0": bench.pack.archive}
    assert bench.kept("suite") == {"acme.shop.evals.desk@1.0.0": pack_files()["evals/desk.json"]}
    [(key, body)] = bench.kept("agent").items()
    assert key == f"{DESK}@1.0.0"
    assert msgspec.json.decode(body)["pack"] == f"{PACK}@1.0.0"
    assert bench.kept("pack", "other") == {}


def test_install_again_changes_nothing(bench: Bench) -> None:
    bench.install(*bench.trust)
    again = bench.install(*bench.trust)
    assert again.code == 0
    assert "was installed already" in again.out


@pytest.mark.parametrize("left_out", ["--key", "--integrity"])
def test_install_refuses_what_it_cannot_verify(bench: Bench, left_out: str) -> None:
    at = bench.trust.index(left_out)
    refused = bench.install(*bench.trust[:at], *bench.trust[at + 2 :])
    assert (refused.code, refused.out) == (2, "")
    assert left_out in refused.err
    assert not bench.db.exists()


def test_install_takes_an_unverified_pack_only_if_told_to_and_says_so(bench: Bench) -> None:
    bench.file.write_bytes(another_pack())
    assert bench.install().code == 2
    allowed = bench.install("--allow-unsigned")
    assert allowed.code == 0
    assert "NOT verified" in allowed.out


def test_install_never_takes_what_fails_a_check(bench: Bench) -> None:
    bench.file.write_bytes(an_archive({**signed_files(bench.keys), "prompts/desk.md": b"Evil."}))
    refused = bench.install(*bench.trust, "--allow-unsigned")
    assert refused.code == 2
    assert f"and {bench.pack.integrity} is expected" in refused.err
    assert not bench.db.exists()


def test_a_version_that_is_installed_does_not_change(bench: Bench) -> None:
    bench.install(*bench.trust)
    bench.file.write_bytes(another_pack(description="another"))
    refused = bench.install("--allow-unsigned")
    assert refused.code == 2
    assert f"has the pack {PACK}@1.0.0 already, and it is another one" in refused.err
    assert bench.kept("pack") == {f"{PACK}@1.0.0": bench.pack.archive}


def test_a_new_version_may_bring_the_same_suite(bench: Bench) -> None:
    bench.install(*bench.trust)
    bench.file.write_bytes(another_pack(version="1.1.0"))
    assert bench.install("--allow-unsigned").code == 0
    assert list(bench.kept("pack")) == [f"{PACK}@1.0.0", f"{PACK}@1.1.0"]
    assert list(bench.kept("agent")) == [f"{DESK}@1.0.0", f"{DESK}@1.1.0"]
    assert len(bench.kept("suite")) == 1


def test_a_new_version_with_another_suite_under_the_same_version_is_refused(bench: Bench) -> None:
    bench.install(*bench.trust)
    files = pack_files(version="1.1.0")
    bench.file.write_bytes(
        an_archive({**files, "evals/desk.json": files["evals/desk.json"] + b" "})
    )
    refused = bench.install("--allow-unsigned")
    assert refused.code == 2
    assert "has the suite acme.shop.evals.desk@1.0.0 already" in refused.err
    assert list(bench.kept("pack")) == [f"{PACK}@1.0.0"]


def test_tenants_may_each_have_their_own(bench: Bench) -> None:
    assert bench.install(*bench.trust).code == 0
    bench.file.write_bytes(another_pack(description="another"))
    assert bench.install("--allow-unsigned", tenant="other").code == 0
    assert bench.kept("pack") != bench.kept("pack", "other")


def test_install_refuses_a_pack_that_needs_what_the_host_lacks(bench: Bench) -> None:
    bench.file.write_bytes(another_pack(peerDependencies={"host.fs": "supported"}))
    refused = bench.install("--allow-unsigned")
    assert refused.code == 2
    assert "does not offer host.fs" in refused.err


# run


def run(bench: Bench, *arguments: str) -> Finished:
    (bench.folder / "model.yaml").write_text(MODEL)
    return bench.command("run", *arguments, "--model", "scripted:model.yaml")


def planned_agent(bench: Bench) -> dict[str, Any]:
    """The agent that the newest run was planned with."""
    [planned] = [e for e in bench.command.events() if e["type"] == "evalwright.planned"]
    agent: dict[str, Any] = planned["payload"]["agent"]
    return agent


def test_an_agent_of_a_pack_is_run_against_its_own_suite(bench: Bench) -> None:
    ran = run(bench, "shop.tgz", "--agent", DESK, "--json")
    assert ran.code == 0, ran.err
    assert ran.json()["suiteId"] == "acme.shop.evals.desk"
    assert planned_agent(bench)["agentId"] == DESK


def test_a_run_of_a_pack_can_be_resumed(bench: Bench) -> None:
    run(bench, "shop.tgz", "--agent", DESK)
    assert bench.command("run", "--resume", "latest").code == 0
    assert planned_agent(bench)["ref"] == f"shop.tgz#{DESK}"


def test_an_agent_of_a_pack_can_be_run_against_any_suite(bench: Bench) -> None:
    ran = run(bench, bench.command.suite(), "--agent", f"shop.tgz#{DESK}", "--json")
    assert ran.code == 0
    assert planned_agent(bench)["agentId"] == DESK


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], f"name an agent of the pack with --agent (it has: {DESK})"),
        (["--agent", "nobody"], f"has no agent 'nobody' (it has: {DESK})"),
    ],
)
def test_a_pack_is_run_with_an_agent_of_its_own(
    bench: Bench, arguments: list[str], told: str
) -> None:
    refused = run(bench, "shop.tgz", *arguments)
    assert refused.code == 2
    assert told in refused.err


def test_a_pack_agent_needs_a_model(bench: Bench) -> None:
    refused = bench.command("run", "shop.tgz", "--agent", DESK)
    assert refused.code == 2
    assert "name it with --model" in refused.err


def test_an_agent_without_a_suite_is_told_how_it_can_be_run(bench: Bench) -> None:
    agent = a_pack_agent()
    del agent["evalSuiteRef"]
    bench.file.write_bytes(another_pack(agents=[agent]))
    refused = run(bench, "shop.tgz", "--agent", DESK)
    assert refused.code == 2
    assert f"--agent shop.tgz#{DESK}" in refused.err


def run_from_python(bench: Bench, agent: Any) -> ew.RunResult:
    model = bench.folder / "model.yaml"
    model.write_text(MODEL)
    return ew.run(bench.file, agent, db=bench.command.db, model=f"scripted:{model}")


def test_python_runs_an_agent_of_a_pack_against_its_own_suite(bench: Bench) -> None:
    ran = run_from_python(bench, DESK)
    assert ran.passed, ran.report()
    assert ran.summary["suiteId"] == "acme.shop.evals.desk"
    assert planned_agent(bench)["ref"] == f"{bench.file}#{DESK}"


@pytest.mark.parametrize(
    ("agent", "told"),
    [("nobody", "has no agent 'nobody'"), (lambda _task: "yes", "name an agent of the pack")],
)
def test_python_runs_a_pack_only_with_an_agent_of_its_own(
    bench: Bench, agent: Any, told: str
) -> None:
    with pytest.raises(ew.EvalwrightError, match=f"{told}.*it has: {DESK}"):
        run_from_python(bench, agent)


def test_a_hostile_archive_is_not_run(bench: Bench) -> None:
    bench.file.write_bytes(an_archive({**pack_files(), "../escaped": b"x"}))
    refused = run(bench, "shop.tgz", "--agent", DESK)
    assert refused.code == 2
    assert "shop.tgz: entry 6 '../escaped': `..` leads out" in refused.err
    assert not (bench.folder.parent / "escaped").exists()
