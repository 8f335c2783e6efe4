"""Programs that measure tfpn: `python -m benchmarks.NAME.run` in the repository's root."""
