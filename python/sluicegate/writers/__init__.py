"""Writing samples as sharded files."""
