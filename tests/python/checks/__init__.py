"""Conditions that must hold, and comparisons."""
