"""Reading facts.

`read.read` is the public function: it decides what a source is. `file_formats` decides the format of a file by its
extension and calls the reader of that format: `delimited` (CSV, TSV), `parquet`, `rdf` (Turtle), `ntriples`. `frames`
reads pandas, polars and Arrow tables. `columns` decides which column is the subject, relation, object and weight.
`parallel` reads one file with several processes. All readers pass blocks of names to `fact_builder`.

To add a format, write a module with a function `(file, …, report, part) -> Facts`, and add its extension and the call
in `file_formats`.
"""
