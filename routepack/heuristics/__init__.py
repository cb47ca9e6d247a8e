"""Search: an instance in, decisions out; proves nothing."""
