"""Tests of what only the whole pipeline promises: exactly once through kills, damage, restarts and odd histories.

Each runs many modules at once on purpose. What one module promises is tested in the folder above, in the file of its
name.
"""
