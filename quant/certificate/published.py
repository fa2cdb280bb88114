"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "66fbb6e80af0b33f2fc8292899717fe39130a379ebaada2931279f81791ae669"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
