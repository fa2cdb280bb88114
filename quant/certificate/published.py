"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "f2426bcf8300fdaf08e067166ac7b79a50a3643c840836db039d3ba3c9446233"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
