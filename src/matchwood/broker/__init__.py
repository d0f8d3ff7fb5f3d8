"""The broker: the engine as a service. Imports nothing by itself, so that its parts can be used alone."""
