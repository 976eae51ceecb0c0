"""Who computes the reduction over all N × K × N cells, and its gradient."""
