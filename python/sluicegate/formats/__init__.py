"""The file formats: a dataset for each, and a stream for those that can be read sequentially."""
