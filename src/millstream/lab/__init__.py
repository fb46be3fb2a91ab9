"""Benchmarks, the papers' experiments, and the workloads both run on. Nothing in the product depends on this room.

`bench` and `papers` know `workloads` and the modules that lie here, not each other: `timed` says how long
something takes, `show` has what reports are drawn with. `calibrate` measures the planner's prices on this machine.
"""
