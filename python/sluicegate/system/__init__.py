"""What the operating system gives: files, descriptors, signals, and waiting."""
