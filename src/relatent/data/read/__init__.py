"""Reading facts: source → table → roles → facts.

`read.read` is the public function. `files` finds the format of a file and streams its bytes; `sources` turns every
source into a `table.Table`, a stream of Arrow columns with names and a sample, by one module per format. `roles`
decides once which columns are subject, relation, object and weight, and whether the first row of a text names them; it
serves labels, types, questions and reviews, too. `encode` makes facts of columns. `lint` says what is odd but legal.
`reading` carries the caller's choices, and back how the source was understood. `parallel` reads one file with several
processes.
"""
