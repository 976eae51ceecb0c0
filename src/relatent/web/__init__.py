"""The explorer: a web application over one model."""
