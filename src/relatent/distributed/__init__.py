"""Several processes that fit one model together."""
