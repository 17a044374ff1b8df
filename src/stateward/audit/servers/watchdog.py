"""Waits beside a server of the audit's own, and ends it should the audit be killed.

Run as a script. Its input is a line with the server's process id at each change (0: not running).
When the input ends, the script kills that process and deletes the folder in its argument.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys


def main(folder: str) -> None:
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    if pid:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the server has ended by itself
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
