"""A provider in a process of its own: answers every POST with one chat completion, at once.

python benchmarks/models/server.py LATENCY_MS     prints its port
"""

import asyncio
import json
import sys

BODY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "gpt-4.1-mini",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The order has been shipped. " * 10},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 420,
            "completion_tokens": 60,
            "total_tokens": 480,
            "prompt_tokens_details": {"cached_tokens": 128},
        },
    }
).encode()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    + BODY
)


async def serve(latency_s: float) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                if latency_s:
                    await asyncio.sleep(latency_s)
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
