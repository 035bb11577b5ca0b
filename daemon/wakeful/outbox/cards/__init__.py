"""What messages look like: pure functions from a stored message to the bytes of one vendor."""
