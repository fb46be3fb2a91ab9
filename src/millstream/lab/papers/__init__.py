"""The papers' experiments, a folder for each paper: its printed numbers beside those of the engine or its policies.

What an experiment needs and no pipeline uses lives here too, not in the engine. A paper's folder knows no other's.
"""
