"""`mdtensor cache`: compiled code on disk."""
