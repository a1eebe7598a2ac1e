"""Datasets that the core reads: what all formats have in common."""
