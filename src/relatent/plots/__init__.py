"""Figures of models and reports (matplotlib)."""
