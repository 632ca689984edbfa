"""Options, the log, dtypes, errors, source locations: nothing of arrays."""
