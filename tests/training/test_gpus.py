"""Memory of GPUs; there are none here, so TensorFlow's calls are recorded."""

import tensorflow as tf

from tfpn import training


def test_memory_grows_on_every_gpu(monkeypatch, capsys):
    asked = []

    def set_memory_growth(gpu, enable):
        asked.append((gpu, enable))
        if gpu == "second":
            raise RuntimeError("already initialized")

    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["first", "second"])
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", set_memory_growth)
    assert training.list_gpus() == ["first", "second"]
    assert asked == [("first", True), ("second", True)]
    assert "memory growth not set: already initialized" in capsys.readouterr().err
