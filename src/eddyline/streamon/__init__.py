"""StreaMon (thesis 3.1): the protocol by which every part of the system adapts.

A *Profiler* measures at a stated price, a *Re-optimizer* turns statistics into decisions, an *Executor* applies them
through a narrow control surface. Every decision is one record (``decision``) in one log (``log``), and what a decision
gained is settled in one place (``gains``). This package stands on ``core`` alone.
"""
