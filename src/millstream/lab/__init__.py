"""Workloads, the papers' experiments and benchmarks. Nothing in the product depends on this room."""
