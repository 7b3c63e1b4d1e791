"""A lock that forks wait for, to be held while a thread imports or compiles what comes late.

A child process has none of its parent's other threads, and would wait for ever for their locks.
"""

import os
from threading import RLock

loading = RLock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release
    )
