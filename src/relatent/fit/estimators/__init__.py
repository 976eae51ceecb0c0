"""The estimators, one file each."""
