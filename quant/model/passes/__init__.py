"""Passes that rewrite a graph, one pattern each."""
