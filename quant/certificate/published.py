"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "0ceab050c434a8e72e55e3a3b4367b2b836f06910a9ff97aeb8b522b86c7d314"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
