"""Live events, which later subscriptions may match, in the event half of an MO-Tree (docs/indexes/live-events.md)."""
