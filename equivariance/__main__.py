"""``python -m equivariance``: see ``equivariance.command``."""

import sys

from equivariance.command import main

if __name__ == "__main__":
    sys.exit(main())
