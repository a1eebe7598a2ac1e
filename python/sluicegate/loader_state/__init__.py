"""The state of a loader, of this and other packages."""
