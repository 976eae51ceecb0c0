"""What a fit gives: factors with names and a link, and the file they are kept in."""
