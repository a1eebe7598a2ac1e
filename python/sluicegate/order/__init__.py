"""Which samples an epoch reads, in which order, and how far it is."""
