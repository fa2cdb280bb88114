"""What users would pick instead of mdtensor, written as its friends would write it."""
