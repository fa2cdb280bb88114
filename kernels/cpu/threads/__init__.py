"""The thread pool of compiled programs, and how work is split over it."""
