"""Kernels of the scored interval indexes (Ranked): layout, building, stabbing, updating, the Threshold Algorithm."""
