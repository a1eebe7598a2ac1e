"""The loader and its iterators."""
