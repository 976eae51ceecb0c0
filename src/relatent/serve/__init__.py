"""The faces of the program: queries and the command line."""
