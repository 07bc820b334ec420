"""Backups of a store: its database, the state of its operators and the journal of pushed rows, all of one epoch.

`take_backup` copies a store while it is in use, `restore_backup` creates one from the copy. Neither starts Spark.
"""

from belvedere.backups.restoring import restore_backup
from belvedere.backups.taking import take_backup

__all__ = ["restore_backup", "take_backup"]
