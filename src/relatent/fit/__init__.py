"""From facts to factors: starts, objectives, optimisers, the one loop, the estimators."""
