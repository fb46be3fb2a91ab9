"""What `millstream bench` measures, a module for each of its commands or two: Millstream beside a peer in the same run.

A report is an iterator of lines, so that each is printed as soon as it is known. `native_joins` are the queries as
Spark runs them by itself, `recovering` is the process that `recovery` kills.
"""
