"""The papers' experiments, a folder for each paper: its printed numbers next to those of the engine or its policies.

What an experiment needs and no pipeline uses lives here too, not in the engine. The folders do not import each other.
"""
