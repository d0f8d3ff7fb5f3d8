"""Runs the broker: uvicorn, logs, and what is printed at the start."""

from __future__ import annotations

import gc
import json
import logging
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matchwood.broker.keys import redacted
from matchwood.errors import MissingExtraError, RequestError, StorageError

COLLECTED = 50_000, 20, 100
"""Thresholds of the collector of cycles."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What `matchwood serve` was told."""

    data: Path
    host: str = "127.0.0.1"
    port: int = 8440
    tls_cert: Path | None = None
    tls_key: Path | None = None
    index: str = "auto"
    allow_webhooks: tuple[str, ...] = ()
    webhooks_http: bool = False
    log_level: str = "info"
    kafka_servers: str | None = None
    from_kafka: tuple[str, ...] = ()


class JsonLines(logging.Formatter):
    """One JSON object a line. Secrets of keys are replaced by stars, whatever a message contains."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def serve(options: ServeOptions) -> int:
    """Serve until a signal ends it; returns the exit code."""
    try:
        import uvicorn

        from matchwood.broker.app import App
        from matchwood.broker.broker import Broker
        from matchwood.broker.egress import Egress
        from matchwood.broker.protocol import protocol_of
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(
            f"matchwood serve needs packages that cannot be imported ({error}); "
            "install them with: pip install 'matchwood[broker]'"
        ) from None
    _check(options)
    _log(options.log_level)
    egress = Egress.of(options.allow_webhooks, http=options.webhooks_http)
    scheme = "https" if options.tls_cert else "http"
    first_key: list[Any] = []

    class Server(uvicorn.Server):
        """Says where it is once it listens."""

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            _spare_collector()
            if self.started:
                _greet(f"{scheme}://{options.host}:{options.port}", first_key[0], options)

    def made() -> Broker:
        return Broker(
            options.data,
            index=options.index,
            egress=egress,
            kafka=options.kafka_servers,
            from_kafka=options.from_kafka,
        )

    app = App(made, lambda _, secret: first_key.append(secret))
    server = Server(uvicorn.Config(app, http=protocol_of(app), **_uvicorn_options(options)))
    server.run()
    return 0 if server.started else 2


def _check(options: ServeOptions) -> None:
    """Raise if options do not go together."""
    if options.tls_key is not None and options.tls_cert is None:
        raise StorageError("--tls-key needs --tls-cert")
    if options.from_kafka and options.kafka_servers is None:
        raise RequestError("--from-kafka needs --kafka-servers")


def _uvicorn_options(options: ServeOptions) -> dict[str, Any]:
    """How uvicorn is to serve: quietly, without what the broker does itself or does not offer."""
    return {
        "host": options.host,
        "port": options.port,
        "ssl_certfile": options.tls_cert,
        "ssl_keyfile": options.tls_key,
        "loop": "uvloop",
        "lifespan": "on",
        "ws": "websockets-sansio",
        "ws_per_message_deflate": False,
        "ws_max_size": 1 << 20,
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "date_header": False,
        "timeout_keep_alive": 75,
        "timeout_graceful_shutdown": 3,
        "backlog": 4096,
    }


def _spare_collector() -> None:
    """Let the collector of cycles leave alone what stays, and come less often: a batch makes many objects and no cycles.

    With the settings of Python it takes a third of the time of a batch, and its full passes hold up all requests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)


def _log(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _greet(url: str, secret: Any, options: ServeOptions) -> None:
    """Say where the broker is and, at the first start, show the admin key, once, with a request to paste."""
    if secret is not None:
        print(f"the admin key, shown once; only its hash is stored in {options.data}:\n\n    {secret.reveal()}\n")
        print("to see a match:\n")
        key = f"export MATCHWOOD_URL={url} MATCHWOOD_KEY={secret.reveal()}"
        post = 'curl -sS -H "Authorization: Bearer $MATCHWOOD_KEY" -H "Content-Type: application/json"'
        print(f"    {key}")
        print(f"""    {post} $MATCHWOOD_URL/v1/subscriptions -d '{{"id": "me", "expression": "price < 300"}}'""")
        print(f"""    {post} "$MATCHWOOD_URL/v1/events?wait=matched" -d '{{"item": "phone", "price": 250}}'\n""")
        print(f"or open {url}/live in a browser and enter the key\n")
    print(f"matchwood serves {options.data} at {url}", flush=True)
