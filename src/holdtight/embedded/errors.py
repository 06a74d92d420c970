from holdtight.errors import Unavailable


class EmbeddedError(Unavailable):
    """The embedded server could not be started, or the process that supervises it is gone."""
