"""Defaults that the command line shows without importing NumPy."""

FOLD_IN_OTHERS = 0.1  # weight of an unlisted cell of a new entity as a zero: a few of many facts are given
