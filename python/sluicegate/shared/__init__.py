"""Python objects in memory that processes share."""
