"""What operators see: metrics and traces. Stands on top; `import holdtight` loads none of it."""
