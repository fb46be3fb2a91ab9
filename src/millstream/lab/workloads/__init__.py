"""What benchmarks and experiments run on: streams of given arrivals, keys and disorder, and queries over them.

`generators` makes streams as the papers describe them, `windows` the window sets of their tables as queries with rows
to match, `sensor_queries` those of the sensor workload and `sensor_files` its files, which every contestant can read,
`datacentre` what `millstream demo` shows.
"""
