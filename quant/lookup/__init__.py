"""Lookup tables: functions of 8-bit and 16-bit codes."""
