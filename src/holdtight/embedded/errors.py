from holdtight.errors import Unavailable


class EmbeddedError(Unavailable):
    """The embedded server could not be started, or whoever looks after it is gone."""
