"""`python -m dice_ce.cli`."""

import sys

from dice_ce.cli import main

sys.exit(main())
