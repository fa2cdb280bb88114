"""The declarations: every operation, declared and documented once."""
