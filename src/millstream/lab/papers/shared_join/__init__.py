"""Scheduling for Shared Window Joins over Data Streams (Hammad, Franklin, Aref and Elmagarmid, 2003).

`model` has equations 1 and 2, `run` the join on the engine tuple by tuple, `figures` the results of both: Figures 3, 5
and 7 to 10.
"""
