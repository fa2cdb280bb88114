"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "8e943542a36640ea952cadc7c2ffb7bb1393c8336e0f0f312836be3a90af74b5"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
