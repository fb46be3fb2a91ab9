"""Benchmarks, the papers' experiments, and the workloads both run on. Nothing in the product depends on this room.

`bench` and `papers` know `workloads` and the modules that lie here, not each other: `timed` measures an engine's CPU
time, `show` has what reports are drawn with. `calibrate` measures what the planner's prices are on this machine.
"""
