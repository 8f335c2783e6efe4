"""Runs the command ``tfpn`` by ``python -m tfpn``."""

import sys

from tfpn.cli import main

if __name__ == "__main__":
    sys.exit(main())
