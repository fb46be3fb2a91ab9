"""The workloads of benchmarks and experiments: streams of given arrivals, keys and disorder, and queries over them.

`generators` makes streams as the papers describe them; `windows` has the window sets of their tables as queries, and
rows for them; `sensor_queries` has the queries of the sensor workload and `sensor_files` its files, which every
contestant can read; `datacentre` is the workload of `millstream demo`.
"""
