"""Test cases: loaders, files, and transforms, each in many forms."""
