"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "d6513a3cbc56f48079cf59d00d30af96cc3cb547c9febafe9a3cc36b6405a840"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
