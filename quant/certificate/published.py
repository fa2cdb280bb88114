"""The hashes that every conforming machine gives: the only place where they stand."""

#: Of all cases.
WHOLE = "b9285431bf756efd509319cb5584c4b90fb74f0d8e1616f1f132ed85abe54fee"
#: Of the cases that compile in seconds, `mdtensor verify --quick`.
QUICK = "9475068c8fd1b72d6f5aaeaccd28ff97690d092982ffb79ac15330d105f0a697"
