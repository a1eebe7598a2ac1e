"""Whole datasets, read once and in order: their fields as arrays by name, and statistics of them."""
