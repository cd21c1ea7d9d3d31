"""The input manager on real streams."""
