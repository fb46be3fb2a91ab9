"""Graphs of operators with queues, as op-sched schedules them; the engine itself runs chains of slices.

`graph` says which operator feeds which, `chunk` is what flows, `run` lets a policy choose whose queue is served next
and measures memory and latency, `relational` has operators on Arrow batches. Time comes from outside: an operator says
how long it took, so the same run serves real operators and given costs in virtual time.
"""
