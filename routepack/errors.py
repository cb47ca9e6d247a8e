"""What can go wrong, as types: a wrong input, a wrong plan, a wrong proof, a window that cannot be planned."""


class RoutePackError(Exception):
    """The base of every error that a caller can cause."""


class InvalidInstance(RoutePackError, ValueError):
    """The input is malformed: a value of the wrong type, shape, sign or size."""


class InvalidPlan(RoutePackError, ValueError):
    """A plan breaks a constraint, or claims a number that recomputation contradicts."""


class InvalidCertificate(RoutePackError, ValueError):
    """A certificate does not prove what it claims, or is too large to be checked."""


class Infeasible(RoutePackError):
    """
    No plan exists for a well-formed window: why, and what would help.

    Parameters
    ----------
    reason
        Which constraint cannot be met, with the numbers that show it.
    remedy
        What the caller can change.
    cells_lower_bound
        Cells that the window needs by its tokens alone, if that was computed.
    needs_cells
        Cells that the smallest admissible number of rows has.
    has_samples
        Samples in the window.
    has_groups
        Units that may not be split over cells, when samples are kept together.
    """

    def __init__(
        self,
        reason: str,
        remedy: str,
        *,
        cells_lower_bound: int | None = None,
        needs_cells: int | None = None,
        has_samples: int | None = None,
        has_groups: int | None = None,
    ) -> None:
        super().__init__(f"{reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy
        self.cells_lower_bound = cells_lower_bound
        self.needs_cells = needs_cells
        self.has_samples = has_samples
        self.has_groups = has_groups
