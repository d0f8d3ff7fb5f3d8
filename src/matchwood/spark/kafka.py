"""Kafka: events from a topic, matches to a topic, each exactly once.

Spark's own Kafka sink writes at least once: it writes a micro-batch again after a failure. Here the key of a message is
batch:event:subscription. A repeated micro-batch reads the keys that the topic has already and writes only the others. The
result of a micro-batch is deterministic, so each match is written once.

Needs Spark's connector on the class path: `spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

from matchwood.spark.places import Place, place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def lines(spark: SparkSession, servers: str, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """A stream of the values of a topic, from the earliest offset."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    for name, value in {"startingOffsets": "earliest", **(options or {})}.items():
        reader = reader.option(name, value)
    return reader.load().select(fn.col("value").cast("string").alias("value"))


class TopicSink:
    """Writes the matches of micro-batches to a topic as JSON. `folder` records which were begun: only those may be repeated."""

    def __init__(self, servers: str, topic: str, folder: str | os.PathLike[str] | Place) -> None:
        self._servers = servers
        self._topic = topic
        self._begun = place(folder, "folder") / "begun"

    def __call__(self, matches: DataFrame, number: int) -> None:
        """Write the messages of a micro-batch that the topic does not have."""
        messages = as_messages(matches, number)
        mark = self._begun / f"{number:09}"
        if mark.exists():
            written = self.read(matches.sparkSession).filter(fn.col("key").startswith(f"{number}:")).select("key")
            messages = messages.join(written, "key", "left_anti")
        mark.write(b"")
        writer = messages.write.format("kafka").option("kafka.bootstrap.servers", self._servers)
        writer.option("topic", self._topic).option("kafka.enable.idempotence", "true").save()

    def read(self, spark: SparkSession) -> DataFrame:
        """All messages of the topic: key and value."""
        reader = (
            spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers).option("subscribe", self._topic)
        )
        return reader.load().selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")


def as_messages(matches: DataFrame, number: int) -> DataFrame:
    """Matches as messages with the key batch:event:subscription."""
    key = fn.format_string(f"{number}:%d:%d", "event_id", "subscription_id")
    return matches.select(
        key.alias("key"), fn.to_json(fn.struct("event_id", "subscription_id", "score", "rank")).alias("value")
    )
