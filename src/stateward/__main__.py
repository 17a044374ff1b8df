"""`python -m stateward` is the `stateward` command."""

from __future__ import annotations

import sys

from stateward.cli import main

if __name__ == "__main__":
    sys.exit(main())
