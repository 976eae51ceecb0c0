"""Array operations on NumPy or PyTorch, BLAS threads, and memory checks."""
