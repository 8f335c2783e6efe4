"""``python -m tfpn.cli`` is the command ``tfpn``."""

import sys

from tfpn.cli import main

sys.exit(main())
