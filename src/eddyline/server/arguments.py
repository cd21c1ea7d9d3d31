"""The arguments of ``eddyline serve``. Nothing heavy is imported before it is started."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eddyline.server.settings import Limits, Settings

_DEFAULTS = Limits()


def add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="run queries behind HTTP",
        description="Run streams and queries behind HTTP, with a page to watch and steer them. They survive a restart.",
    )
    serve.add_argument(
        "--state", metavar="DIR", type=Path, default=Path("eddyline-state"), help="catalog and state (eddyline-state)"
    )
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1: this machine only)")
    serve.add_argument("--port", type=int, default=8123, help="the port (8123; 0: any that is free)")
    serve.add_argument("--allow-host", metavar="NAME", action="append", default=[], help="a further name of the server")
    serve.add_argument(
        "--proxy",
        metavar="ADDRESS",
        type=_proxy,
        action="append",
        default=[],
        help="a proxy in front of the server, whose X-Forwarded-For names the client",
    )
    serve.add_argument(
        "--data", metavar="DIR", type=Path, action="append", default=[], help="a folder whose files may be sources"
    )
    serve.add_argument(
        "--functions",
        metavar="MODULE",
        action="append",
        default=[],
        help="a module whose register(session) adds functions",
    )
    for option, default, what in (
        ("--max-body", _DEFAULTS.body, "bytes of one request"),
        ("--max-queries", _DEFAULTS.queries, "queries that run at once"),
        ("--max-declarations", _DEFAULTS.declarations, "declarations"),
        ("--max-memory", _DEFAULTS.memory, "bytes of the process above which nothing more is taken"),
        ("--max-followers", _DEFAULTS.followers, "connections that follow something"),
        ("--retain", _DEFAULTS.retained_rows, "results of a query that are kept for followers that reconnect"),
    ):
        serve.add_argument(option, metavar="N", type=_positive, default=default, help=f"{what} ({default:,})")
    serve.add_argument(
        "--max-rate",
        metavar="N",
        type=_positive,
        default=int(_DEFAULTS.rate),
        help="requests a second from one address (200)",
    )
    serve.add_argument(
        "--slow",
        metavar="SECONDS",
        type=_seconds,
        default=_DEFAULTS.slow_seconds,
        help="in which a reader must take an event (10)",
    )
    serve.add_argument(
        "--header-seconds",
        metavar="SECONDS",
        type=_seconds,
        default=_DEFAULTS.header_seconds,
        help="for the head of a request (10)",
    )
    serve.add_argument(
        "--runtime",
        choices=("inline", "spark"),
        default="inline",
        help="where queries run: in this process, or on Spark",
    )
    serve.add_argument("--master", metavar="URL", help="of Spark (all cores of this machine)")
    serve.add_argument("--shards", metavar="N", type=_positive, help="of a query on Spark; fixed at the first start")
    serve.add_argument("--new-token", action="store_true", help="replace the token for changes by a new one")
    serve.add_argument("--demo", action="store_true", help="add a demo stream and queries that read it")
    serve.add_argument("--traceback", action="store_true", help="show where an error came from")
    serve.set_defaults(action=_serve, parser=serve)


def add_view(commands: Any) -> None:
    view = commands.add_parser(
        "view",
        help="make a page of a bundle",
        description="Make one file of a bundle that the server's page or run --bundle saved, to be opened offline.",
    )
    view.add_argument("bundle", metavar="BUNDLE.json", type=Path, help="what was saved")
    view.add_argument("--out", metavar="FILE", type=Path, help="the file to write (the bundle's name with .html)")
    view.add_argument("--traceback", action="store_true", help="show where an error came from")
    view.set_defaults(action=_view, parser=view)


def _view(options: argparse.Namespace) -> int:
    from eddyline.core.errors import JobError
    from eddyline.plan.print_html import page, read_bundle

    if options.bundle.is_dir():
        raise JobError(f"{options.bundle} is a folder: name one of the bundles in it.")
    try:
        text = options.bundle.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        text = ""  # no text, and so no bundle
    except OSError as error:
        raise JobError(f"{options.bundle} cannot be read: {error.strerror or error}.") from error
    out = options.out or options.bundle.with_suffix(".html")
    if out.resolve() == options.bundle.resolve():
        raise JobError(f"{out} is the bundle itself: name another file (--out).")
    try:
        out.write_text(page(read_bundle(text, options.bundle.name), layout=True), encoding="utf-8")
    except OSError as error:
        raise JobError(f"{out} cannot be written: {error.strerror or error}.") from error
    print(f"written to {out}: open it in a browser")
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on, not {text}.")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"a number of seconds above 0, not {text}.")
    return seconds


def _proxy(text: str) -> str:
    """Connections come from addresses: a name would never be theirs, and the proxy's word would be ignored."""
    from ipaddress import ip_network

    try:
        ip_network(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"the address of a proxy or of its network, such as 10.0.0.7 or 10.0.0.0/24, not {text!r}."
        ) from None
    return text


def settings_of(options: argparse.Namespace) -> Settings:
    limits = Limits(
        body=options.max_body,
        rate=float(options.max_rate),
        queries=options.max_queries,
        declarations=options.max_declarations,
        memory=options.max_memory,
        followers=options.max_followers,
        retained_rows=options.retain,
        slow_seconds=options.slow,
        header_seconds=options.header_seconds,
    )
    return Settings(
        options.state.expanduser().absolute(),
        options.host,
        options.port,
        tuple(f.expanduser().absolute() for f in options.data),
        tuple(options.functions),
        tuple(options.allow_host),
        options.runtime,
        options.master,
        options.shards,
        proxies=tuple(options.proxy),
        limits=limits,
    )


def _serve(options: argparse.Namespace) -> int:
    from eddyline.core.errors import JobError

    settings = settings_of(options)
    if settings.runtime == "inline" and (settings.master or settings.shards):
        raise JobError("--master and --shards are of Spark: add --runtime spark.")
    if settings.runtime == "spark" and options.demo:
        raise JobError("--demo runs in this process: leave --runtime spark out.")
    if settings.master is not None and settings.master.startswith("sc://"):
        raise JobError(
            "a server needs a master, not a Spark Connect server (sc://…), which keeps micro-batches to itself."
        )
    if settings.runtime == "spark":
        from eddyline.spark.requirements import check

        check()  # what is missing is said before anything of Spark is imported
    for folder in settings.folders:
        if not folder.is_dir():
            raise JobError(f"--data: there is no folder {str(folder)!r}.")
    try:
        from eddyline.server.serve import serve
    except ImportError as error:
        raise JobError(f"the server needs FastAPI and uvicorn ({error}): pip install 'eddyline[server]'.") from error
    from eddyline.engine.allocation import keep_memory

    keep_memory()
    return serve(settings, demo=options.demo, new_token=options.new_token)
