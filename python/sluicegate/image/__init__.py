"""Images: decoded, transformed, and returned as fields of samples."""
