"""`mdtensor dispatch`: is the table of methods sound, what runs, and why.

commands (options) -> looking (imports, names) -> mdtensor.diagnose -> formats, sarif,
text (how it is told).
"""
