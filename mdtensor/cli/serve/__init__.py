"""A model behind HTTP, by the Open Inference Protocol, version 2.

protocol   requests and answers as arrays: JSON, and binary tensors behind it
batches    requests that wait together run together
metrics    counts and times, as Prometheus reads them
bodies     requests of limited size and time
app        the paths of the protocol
server     the command, sockets, and a limit on the time of a request's head
"""
