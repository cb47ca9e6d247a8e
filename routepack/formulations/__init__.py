"""Mathematics: a problem becomes a model, the values of its decisions become an answer; no engine is known here."""
