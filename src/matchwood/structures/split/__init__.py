"""Split: one set of subscriptions, divided by kind over several structures."""
