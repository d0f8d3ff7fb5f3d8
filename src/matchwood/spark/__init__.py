"""The pipeline on Spark: raw tables -> ingest -> profile -> weigh -> cover -> index -> match -> evaluate, batch and streaming.

Every stage is a function from DataFrame to lazy DataFrame, on the caller's session. `Lake` keeps tables and indexes as
versions; `docs/spark.md` shows how they go together.
"""
