"""`matchwood serve`: run the broker."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(verbs: Any) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "serve", help="run the broker: durable publish/subscribe over HTTP", description=run.__doc__
    )
    parser.add_argument(
        "--data", type=Path, default=Path("matchwood-data"), help="folder of all data (default: %(default)s)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8440, help="port to listen on (default: %(default)s)")
    parser.add_argument("--tls-cert", type=Path, help="certificate chain in PEM: serve HTTPS")
    parser.add_argument("--tls-key", type=Path, help="private key of the certificate, if it is in a file of its own")
    parser.add_argument("--index", default="auto", help="structure behind the engines (default: %(default)s)")
    parser.add_argument(
        "--allow-webhooks-to",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a network that webhooks may reach though it is not public, such as 10.1.0.0/16",
    )
    parser.add_argument("--allow-http-webhooks", action="store_true", help="let webhooks be http:, without TLS")
    parser.add_argument(
        "--kafka-servers", metavar="HOST:PORT,...", help="Kafka, for deliveries to topics and --from-kafka"
    )
    parser.add_argument(
        "--from-kafka",
        action="append",
        default=[],
        metavar="TOPIC",
        help="publish the events of a topic to the tenant 'default'; offsets are kept with their effects",
    )
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve subscriptions and events over HTTP. The first start prints an admin key and a request to try it with."""
    from matchwood.broker.serve import ServeOptions, serve

    return serve(
        ServeOptions(
            data=arguments.data,
            host=arguments.host,
            port=arguments.port,
            tls_cert=arguments.tls_cert,
            tls_key=arguments.tls_key,
            index=arguments.index,
            allow_webhooks=tuple(arguments.allow_webhooks_to),
            webhooks_http=arguments.allow_http_webhooks,
            log_level=arguments.log_level,
            kafka_servers=arguments.kafka_servers,
            from_kafka=tuple(arguments.from_kafka),
        )
    )
