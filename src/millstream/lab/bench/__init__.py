"""What `millstream bench` measures, one module for one or two commands: Millstream and a peer in the same run.

A report is an iterator of lines, so that each is printed as soon as it is known. `native_joins` has the queries as
native Spark joins and `native_multiway` those of more than two streams; `recovering` is the process that `recovery`
kills.
"""
