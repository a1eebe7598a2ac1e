"""Services of the operating system: files, descriptors, signals, and waiting."""
