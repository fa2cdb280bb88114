"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "cf71592a141371bd8de89c7838f1c2d8ff3fa11036f05b0ff3f9a99f5285d6e0"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
