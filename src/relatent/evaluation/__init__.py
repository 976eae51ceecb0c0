"""How good a model is: cross-validation over cells, ranking, the table of the paper."""
