"""What tests put in place of users' code, files, and devices."""
