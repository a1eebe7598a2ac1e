"""What must be true, and how it is compared."""
