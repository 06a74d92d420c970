"""Exit codes of the command line, close to those of sysexits.h, and the errors that they stand for."""

from holdtight import errors

__all__ = ["LOST", "NOT_ACQUIRED", "NOT_PERMITTED", "OURS", "UNAVAILABLE", "USAGE", "exit_code"]

USAGE = 64
UNAVAILABLE = 69
OURS = 70
NOT_ACQUIRED = 75
LOST = 76
NOT_PERMITTED = 77

_CODES: dict[type[BaseException], int] = {
    errors.LockTimeout: NOT_ACQUIRED,
    errors.JobSkipped: NOT_ACQUIRED,
    errors.QueueFull: NOT_ACQUIRED,
    errors.DeadlockDetected: NOT_ACQUIRED,
    errors.ClockDrift: NOT_ACQUIRED,
    errors.LeaseLost: LOST,
    errors.NotOwner: LOST,
    errors.NotPermitted: NOT_PERMITTED,
    errors.Unavailable: UNAVAILABLE,
    errors.QuorumNotReached: UNAVAILABLE,
    errors.OutOfMemory: UNAVAILABLE,
    errors.NotSupported: USAGE,
}


def exit_code(error: BaseException) -> int:
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return OURS
