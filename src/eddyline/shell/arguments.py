"""The arguments of ``eddyline shell``. Nothing heavy is imported before it is started."""

from __future__ import annotations

import argparse
import os
from typing import Any

TOKEN_VARIABLE = "EDDYLINE_TOKEN"


def add_shell(commands: Any) -> None:
    shell = commands.add_parser(
        "shell",
        help="type statements and watch results",
        description="Type CQL statements and watch results, in a session of this process or in a server.",
    )
    shell.add_argument("url", metavar="URL", nargs="?", help="the address of a server (a session in this process)")
    shell.add_argument("--token", help=f"the server's token (the environment's {TOKEN_VARIABLE})")
    shell.add_argument("--traceback", action="store_true", help="show where an error came from")
    shell.set_defaults(action=_shell, parser=shell)


def _shell(options: argparse.Namespace) -> int:
    from eddyline.core.errors import JobError

    try:
        from eddyline.shell.main import shell
    except ImportError as error:
        raise JobError(f"the shell needs prompt_toolkit and rich ({error}): pip install 'eddyline[shell]'.") from error
    return shell(options.url, options.token or os.environ.get(TOKEN_VARIABLE))
