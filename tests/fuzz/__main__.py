"""`python -m tests.fuzz`. The work is in `runs`: a process that is spawned does not import a `__main__`."""

import sys

from tests.fuzz.runs import main

if __name__ == "__main__":
    sys.exit(main())
