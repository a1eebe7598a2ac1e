"""Datasets that the core reads: the common parts of all formats."""
