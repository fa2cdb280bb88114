"""Runs over many files of data: one result file for each, on processes or on dask.

store      which files a run has, and which of them have results already
work       what a worker does with one file
local      the engine of processes on this machine
dask       the engine of a dask cluster
run        the command
"""
