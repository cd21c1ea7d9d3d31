"""Slack policies by name, as written behind ``SLACK``: ``'auto'``, ``'auto(target=99, window=4096)'``."""

from __future__ import annotations

from eddyline.adaptive.disorder.policy import SlackPolicy
from eddyline.adaptive.disorder.quantile_slack import QuantileSlack
from eddyline.streamon.strategies import find, strategy

strategy("slack")(QuantileSlack)


def make_policy(text: str, unit: str = "ticks") -> SlackPolicy:
    """
    >>> make_policy("auto(target=99)").interval
    128
    >>> make_policy("auto(goal=99)")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the slack policy 'auto' has no option 'goal'. ...
    """
    found, written = find("slack", text)
    made: SlackPolicy = found.make(**found.checked(written), unit=unit)
    return made
