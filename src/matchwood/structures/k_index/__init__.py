"""k_index."""
