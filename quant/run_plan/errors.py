"""The error of this package."""


class PlanError(ValueError):
    """A file that is not a plan for this machine, or an input that does not fit it.

    Args:
        problem: what is wrong, with the numbers.
        fix: what would work.
    """

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem, self.fix = problem, fix

    def __str__(self) -> str:
        return f"{self.problem}. {self.fix}."


class HasNaN(PlanError):
    """An input with a NaN, for which there is no code."""


def damaged(path: object, problem: str) -> PlanError:
    """Return the error for a plan with contents that no compiler writes.

    Example:
        >>> str(damaged("net.mdt", "row 3 reads past the arena"))
        'net.mdt is damaged: row 3 reads past the arena. Compile the model again.'
    """
    return PlanError(f"{path} is damaged: {problem}", "Compile the model again")
