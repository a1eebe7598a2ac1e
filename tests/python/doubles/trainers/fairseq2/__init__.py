"""The interface of fairseq2 that a reader of batches has to meet; fairseq2 0.8.1 requires torch 2.9.1."""

__version__ = "0.8.1"
