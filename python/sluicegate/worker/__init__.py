"""Worker processes and threads, and the data passed between them and the consumer."""
