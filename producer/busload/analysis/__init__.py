"""Results as tables: for people who analyse them."""
