"""The part of verl that creates loaders; verl 0.9.1 requires an older version of transformers."""

__version__ = "0.9.1"
