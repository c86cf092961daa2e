"""Whole studies: sweeps of runs on this machine or on a cluster, and the folder of runs as their database."""
