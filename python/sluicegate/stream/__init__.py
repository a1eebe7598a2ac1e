"""Iterable datasets: read in parts, shuffled, sharded, and resumed."""
