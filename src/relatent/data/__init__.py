"""Facts: where they come from, what they hold, how they are divided."""
