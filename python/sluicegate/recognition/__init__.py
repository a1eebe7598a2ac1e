"""Which datasets, collate functions, and worker functions of other packages the core can stand in for."""
