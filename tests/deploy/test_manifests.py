"""compose.yaml, the Kubernetes manifests and the dashboard: what they name exists."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from evalwright.cli.app import app
from evalwright.engine.fleet import status
from evalwright.engine.fleet.status import FleetNumbers, OwnerShare
from evalwright.host.http.settings import host_settings
from evalwright.host.telemetry.metrics import Metrics
from evalwright.models.config import load_config

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KUBERNETES = ROOT / "deploy" / "kubernetes"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "evalwright.json").read_text())
RESOURCES = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())["resources"]
OBJECTS: list[dict[str, Any]] = [
    each for name in RESOURCES for each in yaml.safe_load_all((KUBERNETES / name).read_text())
]
# Read by what calls models, not by a command.
KEYS_OF_MODELS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
OTHER_VARIABLES = {"EVALWRIGHT_DB", "EVALWRIGHT_SECRET_KEY"}


def pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """The pods of the manifests, each with its name and its only container."""
    for each in OBJECTS:
        if each["kind"] in ("Deployment", "Job"):
            spec = each["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            yield each["metadata"]["name"], spec, container


COMMANDS = {
    **{f"compose {name}": each["command"] for name, each in SERVICES.items() if "build" in each},
    **{f"kubernetes {name}": container["args"] for name, _, container in pods()},
}


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that a list of words names, and its arguments."""
    found: click.Command = app
    context = click.Context(found)
    while isinstance(found, click.Group):
        step = found.get_command(context, words[0])
        assert step is not None, words[0]
        found, words = step, words[1:]
    return found, words


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_command_and_option_exists(words: list[str]) -> None:
    command, arguments = command_of(words)
    with command.make_context("evalwright", list(arguments), resilient_parsing=False) as context:
        assert not context.args


SCALE = (ROOT / "docs" / "scale.md").read_text()
# What the page, or a comment, tells a reader to type; a container of compose is the command itself.
TYPED = sorted(
    {
        typed.strip()
        for typed in re.findall(
            r"(?:`|^|\$ )evalwright ((?:db|serve|worker|signals)\b[^`\n]*)", SCALE, re.MULTILINE
        )
        + re.findall(
            r"docker compose run --rm migrate (.*)", SCALE + (ROOT / "compose.yaml").read_text()
        )
        if "…" not in typed
    }
)


@pytest.mark.parametrize("typed", TYPED)
def test_so_does_what_the_page_tells_to_type(typed: str) -> None:
    command, arguments = command_of(shlex.split(typed))
    # Words that only name a command need not be all that it asks for.
    with command.make_context("evalwright", arguments, resilient_parsing=not arguments) as context:
        assert not context.args


def test_the_page_tells_enough_to_type() -> None:
    assert {"db migrate", "keys create --tenant acme", "serve --workers"} <= set(TYPED)
    assert any(typed.startswith("db prune --older-than") for typed in TYPED)


def test_the_database_takes_the_connections_of_all_processes_that_the_page_starts() -> None:
    each = re.search(r"\| (\d+) for each host, (\d+) for each worker \|", SCALE)
    workers = re.search(r"--scale worker=(\d+)", SCALE)
    allowed = next(word for word in SERVICES["postgres"]["command"] if "max_connections" in word)
    assert each is not None
    assert workers is not None
    most = 2 * int(each[1]) + int(workers[1]) * int(each[2])
    assert int(allowed.partition("=")[2]) >= most + 10  # those of who looks after it


def variables_of_commands() -> set[str]:
    """The variables that some command reads for an option."""
    context = click.Context(app)
    commands = [app.get_command(context, name) for name in ("serve", "worker")]
    found = [option.envvar for each in commands if each for option in each.params]
    return {name for name in found if isinstance(name, str)}


def test_every_variable_is_read_by_something() -> None:
    given = {name for each in SERVICES.values() if "build" in each for name in each["environment"]}
    given |= {each["name"] for _, _, container in pods() for each in container.get("env", [])}
    given |= set(re.findall(r"EVALWRIGHT_\w+", (KUBERNETES / "kustomization.yaml").read_text()))
    assert given - KEYS_OF_MODELS - OTHER_VARIABLES <= variables_of_commands()
    assert {"EVALWRIGHT_DB", "EVALWRIGHT_SECRET_KEY", "EVALWRIGHT_CONFIG"} <= given


@pytest.mark.parametrize("source", ["compose", "kubernetes"])
def test_the_settings_are_settings(source: str, tmp_path: Path) -> None:
    path = tmp_path / "evalwright.toml"
    if source == "compose":
        path = ROOT / "deploy" / "compose" / "evalwright.toml"
    else:
        (settings,) = (each for each in OBJECTS if each["kind"] == "ConfigMap")
        path.write_text(settings["data"]["evalwright.toml"])
    assert host_settings(load_config(named=path)).shutdown_s == 30


def test_compose_has_a_database_two_hosts_three_workers_and_a_proxy() -> None:
    serving = [name for name, each in SERVICES.items() if each.get("command", [""])[0] == "serve"]
    assert serving == ["host-1", "host-2"]
    assert SERVICES["worker"]["deploy"]["replicas"] == 3
    assert SERVICES["postgres"]["image"].startswith("postgres:")
    proxy = (ROOT / "deploy" / "compose" / "nginx.conf").read_text()
    assert re.findall(r"server (host-\d):8787", proxy) == serving


def test_nobody_has_longer_to_end_than_to_be_killed() -> None:
    seconds = {name: each["command"] for name, each in SERVICES.items() if "build" in each}
    drain = float(seconds["worker"][seconds["worker"].index("--drain") + 1])
    assert float(SERVICES["worker"]["stop_grace_period"].rstrip("s")) > drain
    assert float(SERVICES["host-1"]["stop_grace_period"].rstrip("s")) > 30  # shutdown_s
    for name, spec, container in pods():
        if "worker" in name:
            drain = float(container["args"][container["args"].index("--drain") + 1])
            assert spec["terminationGracePeriodSeconds"] > drain
        elif "host" in name:
            pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert spec["terminationGracePeriodSeconds"] > 30 + pause


# Kubernetes.


@pytest.mark.parametrize(
    "each", OBJECTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}"
)
def test_a_manifest_has_the_form_that_kubernetes_asks_for(each: dict[str, Any]) -> None:
    kubernetes_validate.validate(each, "1.37", strict=True)


@pytest.mark.parametrize(
    ("name", "spec", "container"), list(pods()), ids=[name for name, *_ in pods()]
)
def test_a_pod_keeps_to_the_restricted_standard(
    name: str, spec: dict[str, Any], container: dict[str, Any]
) -> None:
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    uid = re.search(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert uid is not None
    assert spec["securityContext"]["runAsUser"] == int(uid[1])
    assert {"requests", "limits"} == set(container["resources"]), name


def test_hosts_and_workers_have_probes_and_a_budget_that_matches_them() -> None:
    budgets = [each["spec"] for each in OBJECTS if each["kind"] == "PodDisruptionBudget"]
    for each in OBJECTS:
        if each["kind"] != "Deployment":
            continue
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
        assert each["spec"]["selector"] in [budget["selector"] for budget in budgets]
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_only_prometheus_reaches_the_workers_and_only_their_metrics() -> None:
    (policy,) = (each["spec"] for each in OBJECTS if each["kind"] == "NetworkPolicy")
    (worker,) = (
        each["spec"]["template"]
        for each in OBJECTS
        if each["kind"] == "Deployment" and each["metadata"]["name"].endswith("worker")
    )
    assert policy["podSelector"]["matchLabels"].items() <= worker["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": "metrics"}]
    (peer,) = rule["from"]  # a rule without it lets everybody in
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}
    namespace = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    adapter = yaml.safe_load((KUBERNETES / "prometheus-adapter.yaml").read_text())
    assert adapter["prometheus"]["url"] == f"http://prometheus.{namespace}.svc"


# Metrics.


@pytest.fixture
def exposed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Every metric of hosts and workers."""

    async def numbers(_database: object) -> FleetNumbers:
        return FleetNumbers(1, 1, 1.0, 1, 1, 1, [OwnerShare("acme", 1, 1)])

    monkeypatch.setattr(status, "fleet_numbers", numbers)
    database: Any = None
    text = Metrics().render()
    text += asyncio.run(status.fleet_metrics(database, with_tenants=True))
    found = re.findall(r"^# TYPE (\S+) (\S+)", text.decode(), re.MULTILINE)
    histograms = {f"{name}_bucket" for name, kind in found if kind == "histogram"}
    return {name for name, _ in found} | histograms


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:evalwright|openwop)_[a-z_]+", text))


def test_the_dashboard_names_only_metrics_that_are_exposed(exposed: set[str]) -> None:
    named = named_in(json.dumps([each.get("targets", []) for each in DASHBOARD["panels"]]))
    assert named <= exposed
    assert {f"evalwright_fleet_{each}" for each in ("queue_depth", "oldest_task_seconds")} <= named
    assert {"evalwright_fleet_lease_losses_total", "evalwright_fleet_tenant_tasks"} <= named


def test_so_do_the_alarms_of_the_page(exposed: set[str]) -> None:
    alarms = re.findall(r"^\| [^|]+ \| `(.+)` \|$", SCALE.partition("| alarm |")[2], re.MULTILINE)
    named = named_in(" ".join(alarms[:4]))
    assert len(named) == 4
    assert named <= exposed


def test_the_autoscaler_follows_the_queue(exposed: set[str]) -> None:
    adapter = yaml.safe_load((KUBERNETES / "prometheus-adapter.yaml").read_text())
    (rule,) = adapter["rules"]["external"]
    assert named_in(rule["metricsQuery"]) | {rule["seriesQuery"]} <= exposed
    (scaler,) = (each for each in OBJECTS if each["kind"] == "HorizontalPodAutoscaler")
    (metric,) = scaler["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for each in DASHBOARD["panels"]:
        place = each["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, each["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
