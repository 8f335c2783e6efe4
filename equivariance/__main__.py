"""Runs the command ``python -m equivariance``, see ``equivariance.command``."""

import sys

from equivariance.command import main
from tfpn.endings import Ending

if __name__ == "__main__":
    with Ending("python -m equivariance", failure=1) as ending:
        ending.imported()
        ending.status = main()
    sys.exit(ending.status)
