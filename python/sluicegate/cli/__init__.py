"""The command `sluicegate` and its demo."""
