"""Random number generators: those of a sample, of a stream, and the global ones."""
