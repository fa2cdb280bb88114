"""The error of what this CPU cannot run; the library above puts its own in place.

raise refusal.error(problem, fix, place)
"""

error: type[Exception] = RuntimeError
