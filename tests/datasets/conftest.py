import numpy as np
import pytest
import sklearn.datasets


@pytest.fixture(scope="session")
def mnist_arrays():
    """Stands in for MNIST: scikit-learn's digits, enlarged to 28 x 28 pixels."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    nearest = np.arange(28) * 8 // 28
    images = (images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    images = images[:, nearest[:, None], nearest]
    labels = labels.astype(np.uint8)
    return {
        "x_train": images[:60],
        "y_train": labels[:60],
        "x_test": images[60:85],
        "y_test": labels[60:85],
    }


@pytest.fixture
def mnist_folder(tmp_path, mnist_arrays):
    """A folder with such an mnist.npz."""
    np.savez(tmp_path / "mnist.npz", **mnist_arrays)
    return tmp_path
