"""State-Slice (Wang, Rundensteiner, Ganguly and Bhatnagar, 2006).

`model` has what follows from the paper's costs, Figures 11 and 19; `run` the strategies of section 7 on the engine,
Figures 17 to 19.
"""
