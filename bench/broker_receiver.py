"""A receiver of webhooks that answers 200 at once and counts: `python -m bench.broker_receiver PORT`."""

from __future__ import annotations

import asyncio
import sys

SEEN: set[bytes] = set()


class _Receiver(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (at := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:at].lower()
            length = head.find(b"content-length:")
            size = int(head[length + 15 :].partition(b"\r\n")[0]) if length >= 0 else 0
            if len(self._buffer) < at + 4 + size:
                return
            self._buffer = self._buffer[at + 4 + size :]
            body = b"ok"
            if head.startswith(b"get /count"):
                body = str(len(SEEN)).encode()
            else:
                SEEN.add(head.partition(b"webhook-id:")[2].partition(b"\r\n")[0])
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
