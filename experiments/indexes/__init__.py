"""The figures of the paper on adaptive multi-route indexes (AMRI)."""
