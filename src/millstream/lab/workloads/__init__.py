"""The workloads of benchmarks and experiments: streams of given arrivals, keys and disorder, and queries over them.

`generators` makes streams as the papers describe them; `windows` has the window sets of their tables as queries, and
rows for them; `sensor_queries` has the queries of the sensor workload and `sensor_files` its files; `window_joins` has
joins of two and more of several streams; `op_sched_streams` the rows of the example of sixteen queries. `join_ratio`
is the generator of state-adapt, `idle_groups` has streams of which some partition groups get rows at a time. Spark's
codes of keys are in `spark_codes`. `stream_files` are files that every contestant can read, with DuckDB's answers.
`datacentre` is the workload of `millstream demo`.
"""
