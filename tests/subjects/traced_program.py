"""A program that sends its spans by hand, in JSON, as its argument says; it uses no SDK."""

import json
import os
import sys
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - a small program

from subjects.span_exports import an_agent, an_export


def send(body: bytes, **headers: str) -> int:
    """Export this."""
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request) as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        return refused.code


def main(behaviour: str) -> None:
    """Work on one task."""
    request = json.load(sys.stdin)
    traceparent = os.environ.get("TRACEPARENT")
    if behaviour == "silent":
        status = 200
    elif behaviour == "refused":
        status = send(b"{")
    else:
        assert request["otlp"]["endpoint"] == os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
        tool = behaviour if behaviour == "refunds.create" else "get_order"
        status = send(an_export(*reversed(an_agent(traceparent, tool))))
    json.dump({"output": f"{status}"}, sys.stdout)


main(sys.argv[1])
