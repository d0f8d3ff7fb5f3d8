"""`matchwood spark stream LAKE EVENTS`: match files of events as they come; subscriptions may change meanwhile."""

from __future__ import annotations

import argparse

from matchwood.cli.spark.lake import opened, stage


def add_parser(stages: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the stage."""
    parser = stage(stages, "stream", "match files of events as they come")
    parser.add_argument("events", help="a folder that files of JSON lines are moved into")
    parser.add_argument("--changes", help="such a folder of changes of subscriptions")
    parser.add_argument("--name", default="matches", help="of the stream")
    parser.add_argument("-k", type=int, help="the k best of each event; all unless given")
    parser.add_argument("--mode", choices=["all", "any"], default="all")
    parser.add_argument("--scoring", choices=["sum", "max", "priority"], default="sum", help="(default: sum)")
    parser.add_argument("--every", default="1 second", help="the trigger's interval")
    parser.add_argument("--once", action="store_true", help="do what is there, and end")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run until it is stopped, or until all is done."""
    with opened(options) as (lake, spark):
        from matchwood.spark.paths import raw_input
        from matchwood.spark.streaming import MatchStream

        stream = MatchStream(lake, options.name, k=options.k, mode=options.mode, scoring=options.scoring)
        sources = [
            None if path is None else spark.readStream.text(raw_input(path))
            for path in (options.events, options.changes)
        ]
        trigger = {"availableNow": True} if options.once else {"processingTime": options.every}
        query = stream.start(sources[0], (stream.folder / "checkpoint").written_by_spark, changes=sources[1], **trigger)
        print(f"matches go to {stream.folder / 'matches'}", flush=True)
        query.awaitTermination()
