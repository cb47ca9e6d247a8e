"""Files, generators, presets and shipped windows."""
