"""Worker processes and threads, and what passes between them and the consumer."""
