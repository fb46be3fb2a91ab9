"""A shared plan and Arrow batches to results: segments, probes, units, the ledger and the policies that order work.

This room takes and returns Arrow and NumPy only. It knows nothing of Spark, so it can be tested, simulated and profiled
in one process. The entry point is `Engine`; `expressions` evaluates what queries compute.
"""
