"""Queries on models (Pulse): signals as piecewise polynomials, and operators as equation systems over them."""
