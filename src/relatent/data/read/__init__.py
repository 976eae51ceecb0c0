"""Reading facts.

`read.read` is the public function: it decides what a source is. `file_formats` decides the format of a file by its
extension and calls the reader of that format: `delimited` (CSV, TSV), `parquet`, `json_rows`, `rdf`, `ntriples`,
`graphs` (GraphML, networkx, rdflib), `sql`. `objects` recognises Python objects; `frames` reads pandas, polars and
Arrow tables, `rows` tuples and dicts. `columns` decides which column is the subject, relation, object and weight, by
names and by the evidence of the first values (`column_evidence`). `reading` carries the caller's choices to the
reader, and back how the source was understood. `parallel` reads one file with several processes. All readers pass
blocks of names to `fact_builder`.

To add a format, write a module with a function `(file, reading) -> Facts`, and add its extension and the call in
`file_formats`.
"""
