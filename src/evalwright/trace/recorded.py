"""Responses that keep to the format, read in one go; `decode` says what all others mean."""

from typing import Annotated, Literal, TypeAlias, TypedDict

import msgspec

from evalwright.trace.model import (
    Event,
    EvidenceTarget,
    FinalOutput,
    Json,
    Message,
    ProposedAction,
    Retrieval,
    ToolCall,
    ToolResult,
)

FARTHEST = 10**18  # larger numbers are not times, prices or durations

_Whole: TypeAlias = Annotated[int, msgspec.Meta(gt=-FARTHEST, lt=FARTHEST)]
_Real: TypeAlias = Annotated[float, msgspec.Meta(gt=-FARTHEST, lt=FARTHEST)]
_Number: TypeAlias = _Whole | _Real | None
_Identifier: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)] | None
_Strings: TypeAlias = tuple[str, ...] | None


class _CallRecord(msgspec.Struct, tag="tool_call", gc=False):
    ts: _Number = None
    call_id: _Identifier = None
    tool: str | None = None
    args: Json = None
    action_id: _Identifier = None

    def event(self, index: int) -> Event:
        return ToolCall(index, self.ts, self.call_id, self.tool or "", self.args, self.action_id)


class _ResultRecord(msgspec.Struct, tag="tool_result", gc=False):
    ts: _Number = None
    call_id: _Identifier = None
    tool: str | None = None
    status: str | None = None
    payload_summary: Json = msgspec.UNSET
    payload: Json = None
    error_message: str | None = None
    latency_ms: _Number = None

    def event(self, index: int) -> Event:
        summary = self.payload_summary
        return ToolResult(
            index,
            self.ts,
            self.call_id,
            self.tool,
            self.status or "",
            self.payload if summary is msgspec.UNSET else summary,
            self.error_message,
            self.latency_ms,
        )


class _RetrievalRecord(msgspec.Struct, tag="retrieval", gc=False):
    ts: _Number = None
    query: str | None = None
    doc_ids: _Strings = None
    documents: Json = msgspec.UNSET
    docs: Json = msgspec.UNSET
    snippets: Json = msgspec.UNSET
    content: Json = msgspec.UNSET
    snippets_hashes: Json = msgspec.UNSET

    def event(self, index: int) -> Event:
        kept = (self.documents, self.docs, self.snippets, self.content, self.snippets_hashes)
        content = next((each for each in kept if each is not msgspec.UNSET), None)
        return Retrieval(index, self.ts, self.query or "", self.doc_ids or (), content)


class _MessageRecord(msgspec.Struct, tag="message", gc=False):
    ts: _Number = None
    role: str | None = None
    content: Json = None

    def event(self, index: int) -> Event:
        return Message(index, self.ts, self.role or "", self.content)


class _OutputRecord(msgspec.Struct, tag="final_output", gc=False):
    ts: _Number = None
    content_type: str | None = None
    content: Json = None

    def event(self, index: int) -> Event:
        return FinalOutput(index, self.ts, self.content_type or "text", self.content)


class _EvidenceRecord(msgspec.Struct, gc=False):
    kind: str | None = None
    id: _Identifier = None
    call_id: _Identifier = None

    def target(self) -> EvidenceTarget:
        kind = self.kind or ""
        return EvidenceTarget(kind, self.id if kind == "retrieval_doc" else self.call_id)


class _ActionRecord(msgspec.Struct, gc=False):
    action_id: _Identifier = None
    action_type: str | None = None
    tool_name: str | None = None
    params: Json = None
    risk_level: Literal["low", "medium", "high"] | None = None
    risk_tags: _Strings = None
    evidence_refs: tuple[_EvidenceRecord, ...] | None = None

    def action(self) -> ProposedAction:
        return ProposedAction(
            self.action_id,
            self.action_type or "",
            self.tool_name,
            self.params,
            self.risk_level or "medium",
            self.risk_tags or (),
            tuple([each.target() for each in self.evidence_refs or ()]),
        )


_EventRecord: TypeAlias = (
    _CallRecord | _ResultRecord | _RetrievalRecord | _MessageRecord | _OutputRecord
)


class RecordedResponse(TypedDict, total=False):
    """All that anybody asks of a response; what it holds beside that is passed over."""

    case_id: Json
    base_case_id: Json
    user_prompt: Json
    system_prompt: Json
    tools_offered: Json
    events: tuple[
        _CallRecord | _ResultRecord | _RetrievalRecord | _MessageRecord | _OutputRecord, ...
    ]
    final_output: Json
    proposed_actions: tuple[_ActionRecord, ...]
    runner_failure: Json
    usage: Json
    scored: Json
    evalwright_coverage: Json
    ts_synthetic: Json
    evalwright_import_fault: Json


_DECODER = msgspec.json.Decoder(RecordedResponse)


def read_recorded(data: bytes) -> RecordedResponse | None:
    """A response from its JSON text; None where it may not keep to the format."""
    try:
        if not data.isascii():
            data.decode()  # what is passed over would not be looked at
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
