"""Where batches go: pinned memory and devices."""
