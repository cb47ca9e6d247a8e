"""Engines: a model and a budget become values and a claimed bound; no window is known here."""
