"""State-Slice (Wang, Rundensteiner, Ganguly and Bhatnagar, 2006).

`model` has the results of the paper's cost model, Figures 11 and 19; `run` the strategies of section 7 on the engine,
Figures 17 to 19.
"""
