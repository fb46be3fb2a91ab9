"""Benchmarks, the papers' experiments, and the workloads both run on. Nothing in the product depends on this room.

`bench` and `papers` import `workloads` and the modules here, not each other: `timed` measures times, `show` draws
reports. `calibrate` measures the planner's costs on this machine.
"""
