"""Proofs: an instance in, a certificate out; untrusted until checked."""
