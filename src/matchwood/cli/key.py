"""`matchwood key list | make | rotate | revoke`: the keys of a broker. Needs a key of the scope `admin`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.remote import add_broker, note, show, with_broker

if TYPE_CHECKING:
    from matchwood.broker.types import KeyView
    from matchwood.client import Client

SCOPES = ("publish", "subscribe", "manage", "federate", "admin")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("key", help="list, make, rotate and revoke the keys of a broker")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION", dest="action")
    listed = actions.add_parser("list", help="all keys, without their secrets")
    make = actions.add_parser("make", help="make a key; its text is printed, once")
    make.add_argument("scope", nargs="+", choices=SCOPES, help=f"what it may be used for: {', '.join(SCOPES)}")
    make.add_argument("--tenant", default="default", help="whose it is (default: default)")
    make.add_argument("--note", default="", help="what it is for")
    rotate = actions.add_parser("rotate", help="give a key a new secret; the old one is valid for a day")
    revoke = actions.add_parser("revoke", help="end a key")
    for action in (rotate, revoke):
        action.add_argument("id", help="the part of the key between the underscores")
    for action in (listed, make, rotate, revoke):
        add_broker(action)
        action.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the action."""

    async def work(mw: Client) -> None:
        if options.action == "list":
            for key in await mw.keys.list():
                show(key)
        elif options.action == "make":
            _reveal(await mw.keys.make(options.scope, tenant=options.tenant, note=options.note))
        elif options.action == "rotate":
            _reveal(await mw.keys.rotate(options.id))
        else:
            await mw.keys.revoke(options.id)

    return with_broker(options, work)


def _reveal(key: KeyView) -> None:
    note(f"key {key.id} of tenant {key.tenant}: {', '.join(key.scopes)}. It is shown once:")
    print(key.key)
