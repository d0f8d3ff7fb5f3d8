"""be_star."""
