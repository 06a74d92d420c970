"""The script of attempts with `cohort=True`. Loaded with the first such lock."""

from holdtight.stores.redis.script import Script

__all__ = ["COHORT"]

COHORT = Script("attempt_cohort")
COHORT.fetch()  # nothing may be read from files after the grant
