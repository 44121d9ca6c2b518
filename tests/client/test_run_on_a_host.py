"""`evalwright run --host`: the suite runs elsewhere, and everything else is as it is here."""

import json
import re
import signal

import pytest

from builders import AGENT_ID, SUITE_ID, a_suite, a_task
from client.wire import answer, saying
from host.server import BROKEN, GATED, PRICED, WRONG
from subjects.command import subject
from subjects.waiting import eventually

REF = f"{SUITE_ID}@1.0.0"


class Remote:
    """The command with a key for a host."""

    def __init__(self, evalwright, url, key):
        evalwright.db = None
        self.evalwright = evalwright
        self.url = url
        self.environment = {"EVALWRIGHT_KEY": key}

    def line(self, *arguments):
        return ["run", *arguments, "--host", self.url]

    def __call__(self, *arguments):
        return self.evalwright(*self.line(*arguments), env=self.environment)

    def start(self, *arguments):
        return self.evalwright.start(*self.line(*arguments), env=self.environment)


@pytest.fixture
def remote(served, evalwright):
    return Remote(evalwright, served.url, served.key())


@pytest.fixture
def suite(evalwright):
    return evalwright.suite(a_suite(3))


def same_for_all(text):
    """A text without what differs from run to run."""
    text = re.sub(r"run_[0-9a-z]{26}|\d+ ms|\d+\.\d+ s|\"latencyMs\": \d+", "…", text)
    return re.sub(r"\n(  [A-Z][a-z ]+evalwright .*\n)+", "", text)  # commands on the log beside it


def test_a_suite_is_published_run_and_reported(remote, suite):
    done = remote(suite, "--agent", AGENT_ID)
    assert done.code == 0, done.err
    assert f"{REF}: 3 tasks against {AGENT_ID} on {remote.url}, run run_" in done.err
    assert "PASSED ● May ship: 3 of 3 tasks passed" in done.out


WIDE = """\
evalwright: 1
agent: agent.py:answer
defaults: { checks: [ { equals: "yes" } ], repeat: 2 }
tasks: [ { id: first, input: 1 }, { id: second, input: 2 } ]
"""


def test_a_wide_suite_is_run_on_a_host_too(remote):
    (remote.evalwright.folder / "desk.yaml").write_text(WIDE)
    done = remote("desk.yaml", "--agent", AGENT_ID)
    assert done.code == 0, done.err
    assert f"desk: 2 tasks against {AGENT_ID}" in done.err
    assert remote("desk.yaml", "--agent", AGENT_ID).code == 0


def test_rows_of_files_are_sent_with_the_suite_and_keep_their_ids(remote, served):
    folder = remote.evalwright.folder / "desk"
    folder.mkdir()
    (folder / "desk.yaml").write_text(
        "evalwright: 1\n"
        "data: [ { file: rows.csv, limit: 3, tags: [desk], checks: [ { equals: '{{ is }}' } ] } ]\n"
    )
    (folder / "rows.csv").write_text(
        "id,question,is\na-1,Is {{ it }} open?,yes\n,Is it?,no\n,And this?,yes\n,Not asked,no\n"
    )
    far = remote("desk/desk.yaml", "--agent", AGENT_ID, "--json")
    near = remote.evalwright(
        *("run", "desk/desk.yaml", "--agent", subject("answers.py:yes"), "--json")
    )
    assert far.code == near.code == 1, far.err
    told = [[(t["taskId"], t["passed"]) for t in run.json()["tasks"]] for run in (far, near)]
    assert sorted(told[0]) == sorted(told[1])
    assert len(told[0]) == 3
    asked = served.caller().get("/v1/suites/local.evals.desk@0.0.0").json()
    assert "rows.csv" not in json.dumps(asked)
    again = remote("desk/desk.yaml", "--agent", AGENT_ID, "--json")
    assert again.code == 1, "what is published already is run again"


def test_the_data_of_a_world_is_sent_in_place_of_its_file(remote):
    folder = remote.evalwright.folder
    (folder / "shop.json").write_text(json.dumps({"orders": [{"id": "A-17"}]}))
    (folder / "world.yaml").write_text(
        "evalwright: 1\n"
        "worlds: {shop: {data: shop.json, tools: {orders.list: {find: orders}}}}\n"
        "tasks: [{id: first, input: 1, world: shop, checks: [equals: 'yes', state: unchanged]}]\n"
    )
    done = remote("world.yaml", "--agent", AGENT_ID)
    assert done.code == 0, done.err
    suite = (folder / "world.yaml").read_text().replace("find: orders", "python: 'shop.py:policy'")
    (folder / "code.yaml").write_text(suite)
    (folder / "shop.py").write_text("def policy(world): return 1")
    done = remote("code.yaml", "--agent", AGENT_ID)
    assert done.code == 2
    assert "code is not run here (use get, find, create, update or delete)" in done.err


def test_a_file_that_is_not_there_is_told_before_anything_is_sent(remote):
    (remote.evalwright.folder / "desk.yaml").write_text(
        "evalwright: 1\ndata: [ { file: rows.csv, checks: [ { equals: x } ] } ]\n"
    )
    done = remote("desk.yaml", "--agent", AGENT_ID)
    assert (done.code, "there is no such file" in done.err) == (2, True)


def test_code_is_refused_before_anything_is_sent(remote):
    own = WIDE.replace('{ equals: "yes" }', "{ python: checks.py:is_polite }")
    (remote.evalwright.folder / "desk.yaml").write_text(own)
    done = remote("desk.yaml", "--agent", AGENT_ID)
    assert done.code == 2
    assert "code is not run here" in done.err


@pytest.mark.parametrize(("agent", "ref", "code"), [(AGENT_ID, "yes", 0), (WRONG, "no", 1)])
def test_results_are_those_of_a_run_on_this_machine(remote, suite, agent, ref, code):
    here, there = remote.evalwright.folder / "here", remote.evalwright.folder / "there"
    files = ("--out", str(there), "--junit", str(there / "junit.xml"))
    there.mkdir()
    far = remote(suite, "--agent", agent, *files)
    here.mkdir()
    near = remote.evalwright(
        *("run", suite, "--agent", subject(f"answers.py:{ref}"), "--agent-id", agent),
        *("--model-class", "general"),
        *("--out", str(here), "--junit", str(here / "junit.xml")),
    )
    assert far.code == near.code == code
    assert same_for_all(far.out) == same_for_all(near.out)
    for name in ("summary.json", "scorecard.txt"):
        assert same_for_all((there / name).read_text()) == same_for_all((here / name).read_text())
    assert (there / "junit.xml").read_text().count("<testcase") == 3 + code


def test_the_events_in_the_folder_are_byte_by_byte_those_of_the_host(remote, served, suite):
    out = remote.evalwright.folder / "out"
    assert remote(suite, "--agent", AGENT_ID, "--out", str(out)).code == 0
    (run_id,) = served.log.run_ids()
    recorded = b"".join(event.to_json() + b"\n" for event in served.log.read(run_id))
    assert (out / "events.jsonl").read_bytes() == recorded


def test_with_json_stdout_is_the_summary_of_the_host(remote, served, suite):
    done = remote(suite, "--agent", AGENT_ID, "--json", "--quiet")
    assert done.err == ""
    (run_id,) = served.log.run_ids()
    assert done.json() == served.caller().get(f"/v1/runs/{run_id}/eval-summary").json()


def test_options_of_the_run_reach_the_host(remote, served, suite):
    done = remote(
        *(suite, "--agent", AGENT_ID, "--mode", "golden", "--tag", "ci", "--concurrency", "2"),
        *("--timeout", "90.5", "--run-timeout", "60", "--max-cost", "2"),
    )
    assert done.code == 0, done.err
    run = served.caller().get(f"/v1/runs/{served.log.run_ids()[0]}").json()
    assert run["tags"] == ["ci"]
    assert run["configurable"] == {
        "evalModes": ["golden"],
        "concurrency": 2,
        "taskTimeoutMs": 90_500,
        "runTimeoutMs": 60_000,
        "maxCostUsd": 2.0,
    }


def test_a_suite_that_is_there_already_is_not_published_again(remote, served, suite):
    reader = Remote(
        remote.evalwright,
        served.url,
        served.key(scopes=["suites:read", "runs:create", "runs:read"]),
    )
    assert remote(suite, "--agent", AGENT_ID).code == 0
    assert reader(suite, "--agent", AGENT_ID).code == 0


def test_the_same_suite_in_other_bytes_is_the_same_suite(remote, suite):
    assert remote(suite, "--agent", AGENT_ID).code == 0
    document = json.loads((remote.evalwright.folder / suite).read_text())
    turned = dict(reversed(document.items()))
    (remote.evalwright.folder / "again.json").write_text(json.dumps(turned, indent=3))
    assert remote("again.json", "--agent", AGENT_ID).code == 0


def test_a_changed_suite_under_the_same_version_is_refused(remote, served, suite):
    assert remote(suite, "--agent", AGENT_ID).code == 0
    changed = remote.evalwright.suite(a_suite(2), "changed.json")
    done = remote(changed, "--agent", AGENT_ID)
    assert done.code == 2
    assert f"changed.json: {REF} is published on {remote.url} with another content" in done.err
    assert "give the changed suite a new version" in done.err
    assert len(served.log.run_ids()) == 1


def test_a_run_is_compared_with_the_latest_one_of_the_suite(remote, served):
    suite = remote.evalwright.suite(a_suite(2, modes=("golden", "regression")))
    assert remote(suite, "--agent", AGENT_ID).code == 0
    (baseline,) = served.log.run_ids()
    done = remote(suite, "--agent", WRONG, "--baseline", "latest")
    assert done.code == 1
    assert f"Against {baseline}: " in done.out


def test_without_a_run_to_compare_with_there_is_no_latest_baseline(remote, served, suite):
    done = remote(suite, "--agent", AGENT_ID, "--baseline", "latest")
    assert done.code == 2
    assert f"{remote.url} has no completed run of {REF}" in done.err
    assert served.log.run_ids() == []


def test_what_makes_the_exit_code_1_is_decided_here(remote, suite):
    assert remote(suite, "--agent", WRONG, "--fail-on", "none").code == 0


def test_a_run_that_fails_is_an_error_with_a_report(remote):
    suite = remote.evalwright.suite(a_suite(30))
    report = remote.evalwright.folder / "junit.xml"
    done = remote(suite, "--agent", PRICED, "--max-cost", "0.000001", "--junit", str(report))
    assert done.code == 3
    assert "failed with budget_exhausted" in done.err
    assert "budget_exhausted" in report.read_text()


def test_an_agent_that_breaks_is_no_pass(remote, suite):
    assert remote(suite, "--agent", BROKEN).code in (1, 3)


def test_an_interrupt_leaves_the_run_to_the_host_and_says_how_to_watch_it(remote, served, gate):
    suite = remote.evalwright.suite(a_suite([a_task(input="wait")]))
    process = remote.start(suite, "--agent", GATED, "--quiet")
    eventually(lambda: served.host.streams.held, "somebody who watches the run")
    (run_id,) = served.log.run_ids()
    process.send_signal(signal.SIGINT)
    stopped = remote.evalwright.finish(process)
    assert stopped.code == 130
    again = f"evalwright run --host {remote.url} --resume {run_id}"
    assert f"the host goes on with run {run_id}; watch it again: {again}" in stopped.err
    gate.open_gate()
    done = remote("--resume", run_id)
    assert done.code == 0, done.err
    assert "PASSED" in done.out


def test_the_latest_run_can_be_watched_again_by_that_name(remote, suite):
    assert "there is no run" in remote("--resume", "latest").err
    first = remote(suite, "--agent", AGENT_ID)
    again = remote("--resume", "latest", "--json")
    assert (first.code, again.code) == (0, 0)


def test_a_run_that_is_cancelled_has_no_result(remote, served, gate):
    suite = remote.evalwright.suite(a_suite([a_task(input="wait")]))
    process = remote.start(suite, "--agent", GATED)
    gate.wait_for(1)
    run_id = eventually(served.log.run_ids)[0]
    served.caller().post(f"/v1/runs/{run_id}/cancel")
    done = remote.evalwright.finish(process)
    assert done.code == 3
    assert f"run {run_id} was cancelled; it has no result" in done.err


@pytest.mark.parametrize(
    "option",
    [
        ("--db", "x.db"),
        ("--model", "openai:x"),
        ("--model-class", "general"),
        ("--agent-id", "acme.other"),
        ("--judge", "openai:x"),
        ("--repeat", "2"),
        ("--tools", "tools.yaml"),
        ("--read-only",),
        ("--gateway",),
        ("--cassette", "x.jsonl"),
        ("--allow-self-judge",),
    ],
    ids=lambda option: option[0],
)
def test_options_that_mean_nothing_to_a_host_are_refused_by_name(remote, served, suite, option):
    done = remote(suite, "--agent", AGENT_ID, *option)
    assert done.code == 2
    assert f"--host: a run of a host does not take {option[0]}; leave it out" in done.err
    assert served.log.run_ids() == []


def test_a_run_that_is_watched_again_takes_nothing_that_would_change_it(remote):
    done = remote("--resume", "run_a", "--tag", "x", "--max-cost", "1")
    assert done.code == 2
    assert "a run that is watched again does not take --tag, --max-cost" in done.err


def test_the_key_comes_from_the_environment_and_there_is_no_option_for_it(remote, suite):
    done = remote.evalwright(*remote.line(suite, "--agent", AGENT_ID))
    assert done.code == 2
    assert "set EVALWRIGHT_KEY to a key of the host; there is no option for it" in done.err
    assert remote(suite, "--agent", AGENT_ID, "--key", "secret").code == 2


def test_a_key_that_the_host_does_not_know_is_refused(remote, suite):
    remote.environment = {"EVALWRIGHT_KEY": "ew_nobody_secret"}
    done = remote(suite, "--agent", AGENT_ID)
    assert done.code == 2
    assert "401 unauthenticated" in done.err
    assert "ew_nobody_secret" not in done.err + done.out


def test_an_agent_that_the_host_does_not_have_is_refused(remote, suite):
    done = remote(suite, "--agent", "acme.nobody")
    assert done.code == 2
    assert "400 validation_error" in done.err


def test_the_agent_must_be_named(remote, suite):
    done = remote(suite)
    assert done.code == 2
    assert "name the agent with --agent: its id on the host" in done.err


def test_a_pack_is_not_run_by_a_host(remote):
    (remote.evalwright.folder / "pack.tgz").write_bytes(b"")
    done = remote("pack.tgz", "--agent", AGENT_ID)
    assert done.code == 2
    assert "pack.tgz: a host runs packs that are installed on it" in done.err


def test_nobody_there_is_code_3(evalwright, suite):
    with saying([]) as wire:
        pass
    done = Remote(evalwright, wire.url, "ew_a_b")(suite, "--agent", AGENT_ID)
    assert done.code == 3
    assert wire.url in done.err


def test_another_kind_of_host_gets_no_key(evalwright, suite):
    told = answer(b'{"protocolVersion":"1.1"}')
    with saying([told] * 3) as wire:
        done = Remote(evalwright, wire.url, "ew_a_secret")(suite, "--agent", AGENT_ID)
    assert done.code == 2
    assert f"{wire.url} is not an Evalwright host" in done.err
    assert not any("ew_a_secret" in heard for heard in wire.heard)


def test_a_file_that_cannot_be_written_is_found_out_before_the_run(remote, served, suite):
    done = remote(suite, "--agent", AGENT_ID, "--junit", "no/such/folder/report.xml")
    assert done.code == 2
    assert served.log.run_ids() == []
