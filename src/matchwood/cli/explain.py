"""`matchwood explain SUBSCRIPTION EVENT`: why an event matches a subscription of a broker, or does not."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from matchwood.cli.remote import add_broker, event_of, with_broker
from matchwood.errors import RequestError

if TYPE_CHECKING:
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser(
        "explain",
        help="say why an event matches a subscription of a broker, or does not",
        epilog="Exit codes: 0 if it matches, 1 if not, 2 for an error.",
    )
    parser.add_argument("subscription", help="its id; with --expression an expression instead")
    parser.add_argument("event", nargs="*", metavar="NAME=VALUE", help="the event, or a JSON object")
    parser.add_argument("--seq", type=int, metavar="SEQ", help="a retained event instead")
    parser.add_argument("--expression", action="store_true", help="the first argument is an expression, not an id")
    add_broker(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the explanation."""
    if (options.seq is None) != bool(options.event):
        raise RequestError("explain needs an event, as NAME=VALUE pairs or a JSON object, or --seq SEQ")

    async def work(mw: Client) -> int:
        event: dict[str, Any] | int = options.seq if options.seq is not None else event_of(options.event)
        if options.expression:
            answer = await mw.explain(event, expression=options.subscription)
        else:
            answer = await mw.explain(event, options.subscription)
        print(answer.text)
        return 0 if answer.matched else 1

    return with_broker(options, work)
