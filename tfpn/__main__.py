"""``python -m tfpn`` is the command ``tfpn``."""

import sys

from tfpn.cli import main

if __name__ == "__main__":
    sys.exit(main())
