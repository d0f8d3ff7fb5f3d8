"""`matchwood dead list | replay | discard`: the dead letters of a broker. Needs a key of the scope `manage`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.remote import add_broker, note, show, with_broker
from matchwood.errors import RequestError

if TYPE_CHECKING:
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("dead", help="list, replay and discard deliveries that a broker has given up")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION", dest="action")
    listed = actions.add_parser("list", help="the dead letters, with the reason of each")
    replay = actions.add_parser("replay", help="deliver them again")
    discard = actions.add_parser("discard", help="forget them")
    for action in (listed, replay, discard):
        action.add_argument("--consumer", metavar="NAME", help="those of this consumer or webhook")
        add_broker(action)
        action.set_defaults(run=run)
    for action in (replay, discard):
        action.add_argument("number", nargs="*", type=int, help="those of these numbers")


def run(options: argparse.Namespace) -> int:
    """Do the action."""

    async def work(mw: Client) -> None:
        if options.action == "list":
            async for letter in mw.dead.list(consumer=options.consumer):
                show(letter)
            return
        if not options.number and not options.consumer:
            raise RequestError(f"which ones? Name their numbers, or --consumer NAME for all of it ({options.action})")
        act = mw.dead.replay if options.action == "replay" else mw.dead.discard
        count = await act(numbers=options.number or None, consumer=options.consumer)
        note(f"{count} dead letters: {'delivered again' if options.action == 'replay' else 'discarded'}")

    return with_broker(options, work)
