"""Adapting State-Intensive Non-Blocking Queries over Distributed Environments (Liu and Rundensteiner, 2005).

`machines` runs shards of the engine as machines under the pipeline's strategies, `run` is one run of them over the
paper's streams. `partitioned` has Figures 6 and 7, `disk` Figures 9 to 12 and the clean-up of section 4.4, `move`
Figures 14 to 17, `both` Figures 20 and 21. The paper's minutes are the experiment's clock; memory is scaled down, in
the same proportion to the state.
"""
