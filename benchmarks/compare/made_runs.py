"""Two run directories of any size, for measuring: every case with calls, results and an output."""

import json
import random
from pathlib import Path

START = 1_700_000_000_000
TOOLS = ["find_order", "read_policy", "check_stock", "list_notes", "write_note", "close_order"]
WORDS = ["parcel", "order", "customer", "address", "refund", "note", "policy", "stock", "late"]
FAULTS = ("other_tool", "tool_error", "lost_answer", "other_id", "no_result")
SHARE_OF_FAULTS = 0.2


def make_runs(folder: Path, cases: int, events: int = 20, seed: int = 1) -> tuple[Path, Path]:
    """Write `cases.json` and the two sides; the new side has a fault in a fifth of its cases."""
    dice = random.Random(seed)
    sides = (folder / "baseline", folder / "new")
    for side in sides:
        side.mkdir(parents=True)
        (side / "run.json").write_text(
            json.dumps({"run_id": side.name, "cases_path": "cases.json"})
        )
    definitions = []
    for number in range(cases):
        case_id = f"order_{number:06}"
        definitions.append(_case(case_id, dice))
        for side in sides:
            fault = dice.choice(FAULTS) if dice.random() < SHARE_OF_FAULTS else None
            response = _response(
                case_id, number, events, dice, fault if side.name == "new" else None
            )
            (side / f"{case_id}.json").write_text(json.dumps(response, indent=2))
    (folder / "cases.json").write_text(json.dumps(definitions, indent=1))
    return sides


def _case(case_id: str, dice: random.Random) -> dict:
    return {
        "id": case_id,
        "title": f"Order case: {_words(dice, 5)}",
        "input": {"user": f"Please {_words(dice, 10)}"},
        "expected": {"tool_required": ["find_order", "close_order"], "must_include": ["order"]},
    }


def _response(
    case_id: str, number: int, events: int, dice: random.Random, fault: str | None
) -> dict:
    if fault == "lost_answer":
        failure = {"class": "timeout", "attempt": 1, "is_transient": True}
        return {"case_id": case_id, "events": [], "runner_failure": failure}
    order, recorded = f"ORD-{10_000 + number}", []
    pairs = max(2, (events - 1) // 2)
    for place in range(pairs):
        tool = (
            "find_order"
            if place == 0
            else "close_order"
            if place == pairs - 1
            else dice.choice(TOOLS)
        )
        if fault == "other_tool" and place == 0:
            tool = "list_notes"
        recorded += _exchange(tool, place, order, dice, failed=fault == "tool_error" and place == 1)
    if fault == "no_result":
        del recorded[-1]
    told = f"ORD-{90_000 + number}" if fault == "other_id" else order
    output = f"Your order {told} is closed. {_words(dice, 20)}"
    recorded.append(
        {
            "type": "final_output",
            "ts": START + 50 * events,
            "content_type": "text",
            "content": output,
        }
    )
    final = {"content_type": "text", "content": output}
    return {"case_id": case_id, "proposed_actions": [], "final_output": final, "events": recorded}


def _exchange(
    tool: str, place: int, order: str, dice: random.Random, *, failed: bool
) -> list[dict]:
    at, call_id = START + place * 100, f"c{place}"
    note = {"note": _words(dice, 12)}
    call = {
        "type": "tool_call",
        "ts": at,
        "call_id": call_id,
        "tool": tool,
        "args": {"order": order, **note},
    }
    payload = "no answer" if failed else {"order": order, "ok": True, "note": _words(dice, 24)}
    status = "timeout" if failed else "ok"
    result = {"type": "tool_result", "ts": at + 40, "call_id": call_id, "status": status}
    return [call, {**result, "payload_summary": payload}]


def _words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(WORDS, k=count))
