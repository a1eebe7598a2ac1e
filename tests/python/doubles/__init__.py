"""Replacements for users' code, files, and devices."""
