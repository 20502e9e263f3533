"""What we are measured against: the same local semantics, h = a·h + b in float32, written as people write it."""
