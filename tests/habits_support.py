"""What the tests of users' habits share."""

import keras

LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# float32, and condition numbers of the Gaussian processes
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
