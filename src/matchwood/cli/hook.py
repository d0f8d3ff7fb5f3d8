"""`matchwood hook list | put | rotate | remove`: the webhooks of a broker. Needs a key of the scope `manage`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from matchwood.cli.remote import add_broker, note, show, with_broker

if TYPE_CHECKING:
    from matchwood.broker.types import HookView
    from matchwood.client import Client


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the verb."""
    parser = verbs.add_parser("hook", help="list, add, rotate and remove the webhooks of a broker")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION", dest="action")
    listed = actions.add_parser("list", help="all webhooks")
    put = actions.add_parser("put", help="add a webhook, or change it; the secret of a new one is printed, once")
    put.add_argument("name")
    put.add_argument("to", metavar="URL", help="where messages go: https://...")
    put.add_argument("--disabled", action="store_true", help="send nothing until it is enabled")
    put.add_argument(
        "--unordered", action="store_true", help="send matches of a subscription side by side, in any order"
    )
    put.add_argument(
        "--retries",
        type=int,
        metavar="N",
        help="attempts after the first: 0 to 10 (6, or 10 if unordered)",
    )
    rotate = actions.add_parser("rotate", help="give a webhook a new secret; both sign for a day")
    remove = actions.add_parser("remove", help="remove a webhook")
    for action in (rotate, remove):
        action.add_argument("name")
    for action in (listed, put, rotate, remove):
        add_broker(action)
        action.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Do the action."""

    async def work(mw: Client) -> None:
        if options.action == "list":
            for hook in await mw.hooks.list():
                show(hook)
        elif options.action == "put":
            given = {"enabled": not options.disabled, "ordered": not options.unordered, "retries": options.retries}
            _reveal(await mw.hooks.put(options.name, options.to, **given))
        elif options.action == "rotate":
            _reveal(await mw.hooks.rotate(options.name))
        else:
            await mw.hooks.remove(options.name)

    return with_broker(options, work)


def _reveal(hook: HookView) -> None:
    note(f"webhook {hook.name}: {hook.url}{'' if hook.enabled else ', disabled'}")
    if hook.secret:
        note("its secret signs every message (Standard Webhooks), and is shown once:")
        print(hook.secret)
