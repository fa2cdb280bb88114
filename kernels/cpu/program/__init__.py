"""Compiled steps, and programs of steps that run in one call."""
