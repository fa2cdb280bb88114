"""Plan a graph, lower it to compiled programs, run it and verify it."""
