"""Layouts of the listed cells (facts and unobserved cells) for sparse products."""
