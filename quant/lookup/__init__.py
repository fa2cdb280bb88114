"""Lookup tables: functions of one 8-bit or 16-bit code, with a result per code."""
