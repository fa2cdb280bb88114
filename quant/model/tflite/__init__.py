"""TFLite files: checks, tensors, and the graph that a file stands for."""
