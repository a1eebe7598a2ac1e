"""A loader for each class."""
