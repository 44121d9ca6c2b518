"""An agent of pydantic-ai with the SDK of OpenTelemetry, unmodified: a program, or a service.

`python traced_desk.py MODEL_URL` answers one task on standard input; with a second argument it is
a service, which prints its port, and continues the trace of each request.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=50))
trace.set_tracer_provider(provider)
Agent.instrument_all()


def desk() -> Agent:
    """The agent, a new one for each task: a client belongs to one event loop."""
    models = OpenAIProvider(base_url=sys.argv[1], api_key="none")
    agent = Agent(OpenAIChatModel("gpt-4.1-mini", provider=models))

    @agent.tool_plain
    def get_order(order_id: str) -> str:
        return f"{order_id} is shipped"

    return agent


class Service(BaseHTTPRequestHandler):
    """The agent behind an address."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Work on one task, within a span that continues the caller's."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        context = propagate.extract({key.lower(): value for key, value in self.headers.items()})
        with trace.get_tracer("server").start_as_current_span("POST", context=context):
            output = desk().run_sync(request["input"]).output
        body = json.dumps({"output": output}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if len(sys.argv) > 2:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.daemon_threads = True
    print(server.server_port, flush=True)  # noqa: T201
    server.serve_forever()
else:
    json.dump({"output": desk().run_sync(json.load(sys.stdin)["input"]).output}, sys.stdout)
