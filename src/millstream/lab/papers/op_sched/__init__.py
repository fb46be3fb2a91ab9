"""Scheduling Strategies for Processing Continuous Queries over Streams (Jiang and Chakravarthy, 2003).

`tables` has Tables 1 and 2, simulated; `figures` Figures 2 to 4, on the real operators of `workload` and simulated.
`operators` runs graphs of operators with queues under the engine's policies, `simulator` in virtual time.
"""
