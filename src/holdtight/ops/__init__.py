"""Metrics, traces and history, for operators. A top layer: `import holdtight` loads none of it."""
