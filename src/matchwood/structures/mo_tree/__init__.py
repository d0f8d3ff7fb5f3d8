"""mo_tree."""
