"""Compiled code of the split index."""
