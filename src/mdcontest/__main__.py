"""`python -m mdcontest`."""

import sys

from mdcontest.cli import main

sys.exit(main())
