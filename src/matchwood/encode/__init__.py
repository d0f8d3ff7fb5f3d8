"""Rows and events to flat arrays: from Python objects, Arrow tables, Parquet and JSON lines."""
