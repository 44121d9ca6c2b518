"""Which runs may be deleted: whole ended ones that nothing refers to; and deleting them.

A run that is kept keeps the runs that it refers to: its baseline, the run that it was forked from,
the evidence of a promotion. Repeats of a group, and a failed run with its continuations, are kept
or deleted together.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import chain
from typing import NamedTuple

import msgspec

from evalwright.contracts.annotation import ANNOTATION_KIND
from evalwright.contracts.errors import EvalwrightError, RunBusy, RunNotFound
from evalwright.contracts.events import EvalStarted, Event, Planned, RunCompleted, RunStarted
from evalwright.engine.baselines import BASELINE_KIND, NamedBaseline
from evalwright.engine.clock import Clock
from evalwright.host.deployments.approvals import run_of_gate
from evalwright.host.deployments.model import DEPLOYMENT, GATE
from evalwright.host.deployments.model import WORKFLOW_ID as DEPLOYMENT_WORKFLOW
from evalwright.host.http.settings import HostSettings
from evalwright.store.protocol import EventLog, RunFacts, RunFilter

SWEEP_SECONDS = 3600.0

MOST_EVENTS_AT_ONCE = 2_000  # deleted in one transaction, for which others wait
_PAGE = 20

_logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]  # runs done, and how many there are
Against = Callable[[RunFacts], str | None]  # why a run is not to be deleted: "is too recent"


class KeptRun(msgspec.Struct, frozen=True, rename="camel"):
    """A run that is old enough and is kept all the same, and why."""

    run_id: str
    reason: str


class PrunePlan(NamedTuple):
    """What pruning comes to: runs by the unit in which they are deleted, and what is kept."""

    units: list[list[RunFacts]]
    kept: list[KeptRun]
    known: set[str]  # all runs that there were


class Reference(NamedTuple):
    """A reference to a run, by a run or by a document."""

    run_id: str
    reason: str  # what the run is to it: "is the baseline of run_…"


class _RunLink(msgspec.Struct, rename="camel"):
    run_id: str


class _OriginLinks(msgspec.Struct, rename="camel"):
    forked_from: _RunLink | None = None


class _PlanLinks(msgspec.Struct, rename="camel"):
    """The part of a plan that names other runs; the rest, which may be long, is skipped."""

    origin: _OriginLinks | None = None
    baseline: _RunLink | None = None


class _EvidenceLink(msgspec.Struct, rename="camel"):
    eval_run_id: str | None = None
    approval_gate_id: str | None = None


class _GateLinks(msgspec.Struct, rename="camel"):
    run_id: str
    request: _EvidenceLink


def references_of(log: EventLog, run: RunFacts) -> Iterator[Reference]:
    """The runs that a run refers to, whether they are in the log or not."""
    edges = log.edges(run.run_id)
    try:
        if run.workflow == DEPLOYMENT_WORKFLOW:
            yield from _evidence_of(run, edges)
        for event in edges:
            if event.type == EvalStarted.TYPE:
                baseline = event.decode(EvalStarted).baseline_run_id
                named = (
                    [Reference(baseline, f"is the baseline of {run.run_id}")] if baseline else []
                )
                for planned in log.read(run.run_id, (Planned.TYPE,), limit=1):
                    links = msgspec.json.decode(planned.body, type=_PlanLinks)
                    if links.baseline is not None:
                        what = f"is the baseline of {run.run_id}"
                        named.append(Reference(links.baseline.run_id, what))
                    origin = links.origin
                    if origin is not None and origin.forked_from is not None:
                        what = f"is the source of {run.run_id}"
                        named.append(Reference(origin.forked_from.run_id, what))
                yield from dict.fromkeys(named)
    except msgspec.MsgspecError:  # damaged: it refers to nothing that can be read
        return


def _evidence_of(run: RunFacts, edges: list[Event]) -> Iterator[Reference]:
    """The evidence of a promotion that was made."""
    if edges[-1].type != RunCompleted.TYPE:
        return
    inputs = edges[0].decode(RunStarted).inputs or {}
    record = (edges[-1].decode(RunCompleted).outputs or {}).get("record")
    for document in (inputs, record):
        found = document.get("evalRunId") if isinstance(document, dict) else None
        if isinstance(found, str):
            yield Reference(found, f"is evidence of the promotion {run.run_id}")


def references_of_documents(log: EventLog) -> Iterator[Reference]:
    """The runs that named baselines, deployments and waiting promotions refer to."""
    for tenant, record in log.records.of_all_tenants(BASELINE_KIND):
        named = msgspec.json.decode(record.body, type=NamedBaseline)
        yield Reference(named.run_id, f"is the baseline {named.name!r} of tenant {tenant}")
    for tenant, record in log.records.of_all_tenants(DEPLOYMENT):
        refs = msgspec.json.decode(record.body, type=_EvidenceLink)
        what = f"deployment {record.key} of tenant {tenant}"
        if refs.eval_run_id is not None:
            yield Reference(refs.eval_run_id, f"is evidence of {what}")
        if refs.approval_gate_id is not None:
            yield Reference(run_of_gate(refs.approval_gate_id), f"is the approval of {what}")
    for tenant, record in log.records.of_all_tenants(GATE):
        gate = msgspec.json.decode(record.body, type=_GateLinks)
        if gate.request.eval_run_id is not None:
            reason = f"is evidence of the promotion {gate.run_id} of tenant {tenant}"
            yield Reference(gate.request.eval_run_id, reason)


class _Units:
    """Runs that are kept or deleted together, and why they are kept."""

    def __init__(self, runs: Iterable[RunFacts]) -> None:
        self.runs = {run.run_id: run for run in runs}
        self._parent = {run_id: run_id for run_id in self.runs}
        groups: dict[str, str] = {}
        for run in self.runs.values():
            if run.repeats is not None:
                self._join(run.run_id, groups.setdefault(run.repeats, run.run_id))
            if run.resumed_from in self.runs:
                self._join(run.run_id, run.resumed_from)
        self.members: dict[str, list[RunFacts]] = {}
        for run in self.runs.values():
            self.members.setdefault(self._of(run.run_id), []).append(run)
        self._kept: dict[str, KeptRun] = {}  # by unit: the run that keeps it, and why

    def _of(self, run_id: str) -> str:
        while self._parent[run_id] != run_id:
            run_id = self._parent[run_id] = self._parent[self._parent[run_id]]
        return run_id

    def _join(self, one: str, other: str) -> None:
        self._parent[self._of(one)] = self._of(other)

    def keep(self, run_id: str, reason: str) -> list[RunFacts]:
        """Keep a run with all that go with it; returns those that were not kept before."""
        if run_id not in self.runs or self._of(run_id) in self._kept:
            return []
        self._kept[self._of(run_id)] = KeptRun(run_id, reason)
        return self.members[self._of(run_id)]

    def why_kept(self, run_id: str) -> KeptRun | None:
        """The run with the reason why it is kept; None if it is not."""
        kept = self._kept.get(self._of(run_id))
        if kept is None or kept.run_id == run_id:
            return kept
        return KeptRun(run_id, f"goes with {kept.run_id}, which {kept.reason}")


def too_recent(before_us: int) -> Against:
    """What speaks against deleting runs that ended at this time or later."""
    return lambda run: None if (run.ended_us or before_us) < before_us else "is too recent"


def plan_pruning(log: EventLog, against: Against, keep_tags: Collection[str] = ()) -> PrunePlan:
    """What deleting the runs that nothing speaks against comes to, and which of them are kept."""
    units = _Units(reversed(log.find_runs()))
    waiting: list[RunFacts] = []
    wanted: list[RunFacts] = []
    for run in units.runs.values():
        reason = "has not ended" if run.ended_us is None else against(run)
        if reason is None:
            wanted.append(run)
            tags = [tag for tag in run.tags if tag in keep_tags]
            reason = f"has the tag {tags[0]!r}" if tags else None
        if reason is not None:
            waiting += units.keep(run.run_id, reason)
    for reference in references_of_documents(log):
        waiting += units.keep(*reference)
    while waiting:
        for reference in references_of(log, waiting.pop()):
            waiting += units.keep(*reference)
    kept = [why for run in wanted if (why := units.why_kept(run.run_id))]
    pruned = [unit for unit in units.members.values() if not units.why_kept(unit[0].run_id)]
    return PrunePlan(pruned, kept, set(units.runs))


def prune_runs(
    log: EventLog, plan: PrunePlan, reason: str, progress: Progress = lambda _, __: None
) -> tuple[list[RunFacts], list[KeptRun]]:
    """Delete what the plan says, a few at a time, so that others can write in between.

    Returns the deleted runs, and those that came into use after the plan was made.
    """
    count = sum(map(len, plan.units))
    pruned: list[RunFacts] = []
    kept: list[KeptRun] = []
    needed: dict[str, str] = {}
    for batch in _batches(plan.units):
        needed |= _needed_since(log, plan.known)
        with ExitStack() as held:
            free: list[list[RunFacts]] = []
            for unit in batch:
                why = _why_late(log, unit, needed, held)
                if why is None:
                    free.append(unit)
                else:
                    kept += [KeptRun(run.run_id, why) for run in unit]
            log.upkeep.prune(
                [run.run_id for unit in free for run in unit], reason, (ANNOTATION_KIND,)
            )
        pruned += chain.from_iterable(free)
        progress(len(pruned) + len(kept), count)
    return pruned, kept


def _batches(units: Iterable[list[RunFacts]]) -> Iterator[list[list[RunFacts]]]:
    """Units that are deleted in one transaction: many short ones, or a long one."""
    batch: list[list[RunFacts]] = []
    for unit in units:
        batch.append(unit)
        if sum(run.events for each in batch for run in each) >= MOST_EVENTS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _why_late(
    log: EventLog, unit: list[RunFacts], needed: Mapping[str, str], held: ExitStack
) -> str | None:
    """Why runs must be kept after all; None if they are claimed for being deleted."""
    for run in unit:
        if run.run_id in needed:
            return needed[run.run_id]
    try:
        for run in unit:
            held.enter_context(log.claim(run.run_id))
    except RunBusy:
        return "is in use"
    return None


def _needed_since(log: EventLog, known: set[str]) -> dict[str, str]:
    """The runs that those need which are not known yet, and why; those are known then."""
    needed: dict[str, str] = {}
    waiting = list(_new_runs(log, known))
    while waiting:
        run = waiting.pop()
        references = list(references_of(log, run))
        if run.resumed_from is not None:
            references.append(Reference(run.resumed_from, f"is continued by {run.run_id}"))
        for run_id, reason in references:
            if run_id not in needed:
                needed[run_id] = reason
                with suppress(RunNotFound):  # what stays needs its own baseline
                    waiting.append(log.facts(run_id))
    return needed


def _new_runs(log: EventLog, known: set[str]) -> Iterator[RunFacts]:
    before = None
    while page := log.find_runs(limit=_PAGE, before=before):
        for run in page:
            if run.run_id in known:
                return
            known.add(run.run_id)
            yield run
        before = page[-1].run_id


def why_needed(log: EventLog, run: RunFacts) -> str | None:
    """Why an ended run cannot be deleted alone; None if nothing needs it."""
    found = log.find_runs(RunFilter(resumed_from=run.run_id))
    if run.repeats is not None:
        found += log.find_runs(RunFilter(repeats=run.repeats))
    if run.resumed_from is not None:
        found += log.find_runs(RunFilter(beginning=run.resumed_from))
    for other in found:
        if other.run_id != run.run_id:
            return f"it goes with {other.run_id}, as a repeat or a continuation"
    own = (
        reference
        for mentioning in log.upkeep.mentioning(run.run_id)
        for reference in references_of(log, log.facts(mentioning))
    )
    for reference in chain(own, references_of_documents(log)):
        if reference.run_id == run.run_id:
            return f"it {reference.reason}"
    return None


def delete_run(log: EventLog, run_id: str) -> str | None:
    """Delete one ended run; returns the reason if it is needed, and raises `RunBusy`."""
    with log.claim(run_id):
        run = log.facts(run_id)
        if run.ended_us is None:
            return "it has not ended"
        reason = why_needed(log, run)
        if reason is None:
            log.upkeep.prune([run_id], "deleted on request", (ANNOTATION_KIND,))
        return reason


class Retention:
    """Deletes runs that are older than the host keeps them, now and then."""

    def __init__(self, log: EventLog, settings: HostSettings, clock: Clock) -> None:
        self._log = log
        self._days = settings.retention_days
        self._keep_tags = settings.retention_keep_tags
        self._clock = clock
        self._next_s = 0.0
        self._is_stopping = False

    async def sweep(self) -> None:
        """Delete what is due, once an hour; a failure is logged, and tried again later."""
        if self._days is None or self._clock.monotonic_s() < self._next_s:
            return
        self._next_s = self._clock.monotonic_s() + SWEEP_SECONDS
        try:
            pruned = await asyncio.to_thread(self._prune, self._days)
        except EvalwrightError as error:
            _logger.error("runs could not be pruned: %s", error)  # noqa: TRY400
        except Exception as error:  # noqa: BLE001 - a damaged document must not end other sweeps
            kind = type(error).__name__
            _logger.error("runs could not be pruned: internal error %s", kind)  # noqa: TRY400
        else:
            if pruned:
                _logger.info("%d runs were pruned: older than %d days", len(pruned), self._days)

    def stop(self) -> None:
        """Leave the rest for the next start."""
        self._is_stopping = True

    def _prune(self, days: int) -> list[RunFacts]:
        before_us = self._clock.now_us() - days * 86_400_000_000
        plan = plan_pruning(self._log, too_recent(before_us), self._keep_tags)
        pruned: list[RunFacts] = []
        for units in _batches(plan.units):
            if self._is_stopping:
                break
            only = plan._replace(units=units)
            done, _ = prune_runs(self._log, only, f"older than {days} days")
            pruned += done
        return pruned
