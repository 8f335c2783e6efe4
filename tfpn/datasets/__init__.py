"""Data sets in the form of observations.

Every function returns a `Dataset` with the parts `.train`, `.validation` and `.test`. A missing
part is None. Each `Part` holds `.x`, the observations dict of NumPy arrays, and `.y`, integer
labels. Give them to `model.fit(part.x, part.y)`. The parts of `table` are `TargetPart`, with
numbers as targets.

    digits             scikit-learn's 8 x 8 digits at random subsets of their pixels; no download
    superpixel_mnist   SLIC-75: MNIST as at most 75 superpixels an image, built here and cached
    mnist_grid         MNIST on a lattice of a chosen resolution
    physionet2012      12,000 stays in intensive care, 37 series each at times of their own
    from_pyg           data sets of PyTorch Geometric, such as its MNISTSuperpixels
    folder             your own .npy files, read batch by batch: data larger than memory
    table              a .csv or .parquet file of your own, by the names of its columns

Points of images are (column, row) in the unit square. Times lie in the unit interval. Install the
packages that the data sets need with ``pip install 'tfpn[datasets]'``. A function imports them when
you call it.
"""

from tfpn.datasets._digits import digits
from tfpn.datasets._folder import folder
from tfpn.datasets._mnist import mnist_grid
from tfpn.datasets._physionet import physionet2012
from tfpn.datasets._pyg import from_pyg
from tfpn.datasets._superpixels import superpixel_mnist
from tfpn.datasets._table import table
from tfpn.datasets.base import Dataset, Part, TargetPart

__all__ = [
    "Dataset",
    "Part",
    "TargetPart",
    "digits",
    "folder",
    "from_pyg",
    "mnist_grid",
    "physionet2012",
    "superpixel_mnist",
    "table",
]
