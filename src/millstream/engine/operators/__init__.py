"""Plans of operators with queues: what runs where a plan is more than one chain of slices.

`graph` says which operator feeds which, `chunk` is what flows, `run` lets a policy choose whose queue is served next
and measures memory and latency, `relational` has operators on Arrow batches. Time comes from outside: an operator says
how long it took, so the same run serves real operators and given costs in virtual time.
"""
