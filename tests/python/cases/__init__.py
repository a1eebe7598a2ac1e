"""What is tried: loaders, files, and transforms, each in many forms."""
