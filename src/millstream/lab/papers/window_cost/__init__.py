"""Evaluating Window Joins over Unbounded Streams (Kang, Naughton and Viglas, 2003).

`model` has the equations, Figures 2, 3 and 5; `joins` has an index or a scan on either side of the engine, Figures 4, 6
and 7. `measured` runs the paper's streams through the engine. `regulate` has Figure 8, `allot` Figure 9, `both` Figures
10 and 11, `seven` the same questions for seven queries that share their streams. `run` is the table of all figures.
"""
