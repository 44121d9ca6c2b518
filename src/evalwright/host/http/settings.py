"""`[host]` of `evalwright.toml`: the operator's settings and their defaults."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.coverage import ToolsClaim, UsageClaim
from evalwright.contracts.run_plan import SCORING_S, RunSettings
from evalwright.contracts.suite import ModelClass
from evalwright.models.config import Config, convert_table

Positive = Annotated[float, Meta(gt=0, le=1_000_000_000)]
Amount = Annotated[int, Meta(ge=1, le=1_000_000_000_000_000)]
Whole = Annotated[int, Meta(ge=1, le=1_000_000_000)]


class SettingsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of tables, which refuse unknown fields."""


class AgentSettings(SettingsTable, frozen=True):
    """`[host.agents."<agentId>"]`: an agent of the operator.

    `ref` is a reference as for `evalwright run --agent`; `model` is for a manifest.
    """

    ref: str
    version: str = "1.0.0"
    tenants: tuple[str, ...] = ()  # empty: all tenants
    model: str | None = None
    model_class: ModelClass | None = None
    persona: str | None = None
    label: str | None = None
    description: str | None = None
    tools: ToolsClaim | None = None  # claimed of its tool calls, where nobody observes them
    usage: UsageClaim | None = None
    isolate: bool = False  # its code, in Python, runs in other processes than that of the host


class EgressSettings(SettingsTable, frozen=True):
    """`[host.egress]`: which addresses tenants' webhooks and HTTP agents may have."""

    allow_private: bool = False
    allow_http: bool = False
    allowed_hosts: tuple[str, ...] = ()


class ApprovalSettings(SettingsTable, frozen=True):
    """`[host.deployments.approval]`: which approvals a promotion needs."""

    scope: str = "approvals:respond"
    quorum: Annotated[int, Meta(ge=1, le=100)] = 1
    timeout_s: Positive = 86_400.0
    override_scope: str | None = None
    override_bypasses_quorum: bool = False


class DeploymentSettings(SettingsTable, frozen=True):
    """`[host.deployments]`: which evidence a promotion needs."""

    require_eval: bool = True
    required_pass_score: Annotated[float, Meta(ge=0, le=1)] | None = None
    required_for: tuple[Literal["test", "staged", "active"], ...] = ("active",)
    approval: ApprovalSettings | None = None
    channels: Annotated[tuple[str, ...], Meta(min_length=1)] = ("stable", "canary")


class RateSettings(SettingsTable, frozen=True):
    """`[host.rates]`: requests per second, and the burst allowed after a pause."""

    per_key: Positive = 5_000.0
    per_tenant: Positive = 10_000.0
    per_address: Positive = 20.0  # without a valid key
    seconds_of_burst: Positive = 2.0


class WebhookSettings(SettingsTable, frozen=True):
    """`[host.webhooks]`: how often, and for how long, a delivery that failed is repeated."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 10
    first_retry_s: Positive = 1.0  # then twice as long after each failure
    longest_retry_s: Positive = 300.0
    max_age_s: Positive = 86_400.0

    def retry_delay_s(self, failures: int) -> float:
        """How long to wait at most after failures in a row: twice as long after each."""
        return min(self.first_retry_s * 2.0 ** min(failures - 1, 60), self.longest_retry_s)


class QuotaSettings(SettingsTable, frozen=True):
    """`[host.quotas]`: what one tenant may have in the log."""

    bytes: Amount = 50_000_000_000
    suites: Whole = 10_000
    runs: Whole = 1_000_000
    annotations: Whole = 1_000_000


class TenantShare(SettingsTable, frozen=True):
    """`[host.fleet.tenants.<tenant>]`: what a tenant may use of all workers together."""

    requests_per_minute: Positive | None = None  # to models
    tokens_per_minute: Positive | None = None
    tasks: Whole | None = None  # at work at once


class FleetSettings(TenantShare, frozen=True):
    """`[host.fleet]`: the same for tenants that have no table of their own."""

    tenants: dict[str, TenantShare] = {}

    def share_of(self, tenant: str) -> TenantShare:
        return self.tenants.get(tenant, self)


class HostSettings(SettingsTable, frozen=True):
    """`[host]`."""

    judges: tuple[str, ...] = ()
    judge_samples: Annotated[int, Meta(ge=1, le=99)] = 1
    tools: str | None = None
    models: dict[ModelClass, str] = {}
    model: str | None = None  # for classes that are not in `models`
    agents: dict[str, AgentSettings] = {}
    bundled: bool = True  # offer the bundled agent and suite
    max_tasks_per_suite: Whole = 1_000
    max_cost_usd_per_suite: Positive = 5.0
    max_tokens_total_per_suite: Amount | None = None
    max_body_bytes: Whole = 4 * 1024 * 1024
    max_requests: Whole = 1_000
    max_requests_per_tenant: Whole = 500
    max_streams: Whole = 5_000
    max_streams_per_tenant: Whole = 1_000
    max_runs: Whole = 1_000
    max_runs_per_tenant: Whole = 500
    workers: bool = False  # hand evaluations to the fleet in place of executing them
    concurrency: Whole = 10
    task_timeout_s: Positive = 300.0
    run_timeout_s: Positive = 3_600.0
    scoring_s: Positive = SCORING_S  # for the checks of one answer; see also `[limits]`
    retention_days: Annotated[int, Meta(ge=7, le=36_500)] | None = None  # None: runs stay
    retention_keep_tags: tuple[str, ...] = ()
    quotas: QuotaSettings = QuotaSettings()
    rates: RateSettings = RateSettings()
    fleet: FleetSettings = FleetSettings()
    egress: EgressSettings = EgressSettings()
    deployments: DeploymentSettings = DeploymentSettings()
    webhooks: WebhookSettings = WebhookSettings()
    shutdown_s: Positive = 10.0
    session_s: Positive = 43_200.0  # after which people sign in to the pages again
    otlp_endpoint: str | None = None  # of an OpenTelemetry collector

    @property
    def limits(self) -> RunSettings:
        """The most that a run may choose, and what it gets without a choice."""
        return RunSettings(
            concurrency=self.concurrency,
            task_timeout_s=self.task_timeout_s,
            run_timeout_s=self.run_timeout_s,
            max_cost_usd=self.max_cost_usd_per_suite,
            max_tokens_total=self.max_tokens_total_per_suite,
            scoring_s=self.scoring_s,
        )


def host_settings(config: Config) -> HostSettings:
    """The settings of the file; raises `InvalidDocument` if one is invalid."""
    scoring_s = config.limits.scoring_s
    table = config.host if scoring_s is None else {"scoring_s": scoring_s, **config.host}
    return convert_table(table, HostSettings, "host", config.source)
