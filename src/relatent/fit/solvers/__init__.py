"""The solvers: each is one step from state to state."""
