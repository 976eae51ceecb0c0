"""The other systems the paper compares with, behind the same `fit(facts)`."""
