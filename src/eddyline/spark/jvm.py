"""Starts Spark's JVM quietly, and turns a start that fails into one sentence.

A JVM prints warnings at its start (incubator modules, sharing, restricted methods) before any setting of Spark's is
read, and no option prevents that. Its output therefore goes through this process. While the JVM starts, lines are held
back; then those that are no such warnings are passed on or, if the start fails, become part of the error. Afterwards
the output of users' functions is passed on at once, and the output of Spark about itself is dropped (``Chatter``),
unless its log was asked for.

A start that is interrupted leaves no JVM behind. Closing its standard input, on which it waits, is not enough: pyspark
removes the folder into which the JVM is about to write its address, and a JVM that cannot write it never comes to wait.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError
from eddyline.engine.stopping import StopRequest

GREETING = re.compile(
    rb"WARNING: |.*VM warning: |Error occurred during initialization of|Picked up \w*JAVA\w*OPTIONS|NOTE: Picked up"
    rb"|Using Spark's default log4j profile|Setting default log level|To adjust logging level|:: loading settings"
)
# The environment of the JVM, which log4j2.properties reads: the level of Spark's log, where it goes, and the file.
LEVEL: Final = "EDDYLINE_SPARK_LOG"
TO: Final = "EDDYLINE_SPARK_LOG_TO"
FILE: Final = "EDDYLINE_SPARK_LOG_FILE"
_SECONDS_FOR_LAST_OUTPUT = 0.5  # to pass on the rest of the pipe when the program ends
_SECONDS_TO_END = 5.0  # for a JVM to remove its files, before it is killed


class Chatter:
    """Lines that Spark prints by itself, past its log: what stateful Python operators say when they begin, the stack
    trace of a thread of the JVM that ends, and that of a worker whose task is gone.

    >>> chatter = Chatter()
    >>> said = [b"mine\\n", b'Exception in thread "x" java.lang.Error\\n', b"\\tat a.b(C.java:1)\\n"]
    >>> said += [b"Traceback (most recent call last):\\n", b'  File "a/pyspark/daemon.py", line 1\\n', b"OSError\\n"]
    >>> said += [b"Traceback (most recent call last):\\n", b'  File "mine.py", line 1\\n', b"OSError\\n"]
    >>> b"".join(line for one in said for line in chatter.others(one)).decode().split("\\n")[:-1]
    ['mine', 'Traceback (most recent call last):', '  File "mine.py", line 1', 'OSError']
    """

    # Greetings that come when the JVM is up already, because a session of the user's own is made in it.
    BELATED = re.compile(
        rb"WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting default log level to "
        rb"|To adjust logging level use sc\.setLogLevel"
    )
    OPERATOR = re.compile(rb"(Starting )?Streaming TransformWithStateIn\w+ Python worker")
    THREAD = re.compile(rb"Exception in thread |Exception: \S+ thrown from the UncaughtExceptionHandler")
    FRAME = re.compile(rb"\s+at [\w.$/<>@]+\(|\s*(Caused by|Suppressed): |\s+\.\.\. \d+ more")
    TRACEBACK = b"Traceback (most recent call last):"
    DAEMON = re.compile(rb'\s+File ".*pyspark[/\\\\]daemon\.py"')

    def __init__(self) -> None:
        self._blank = False  # the operators' words end with an empty line of their own
        self._held: bytes | None = None  # the head of a Python traceback, until its first frame shows whose it is
        self._tracing = False  # inside the traceback of a worker

    def others(self, line: bytes) -> list[bytes]:
        """What is to be passed on now that this line has come."""
        held, self._held = self._held, None
        if held is not None:
            self._tracing = self.DAEMON.match(line) is not None
            return [] if self._tracing else [held, *self.others(line)]
        if self._tracing:  # the first line that is not indented is its last
            self._tracing = line[:1].isspace()
            return []
        if line.startswith(self.TRACEBACK):
            self._held = line
            return []
        blank, self._blank = self._blank, self.OPERATOR.match(line) is not None
        own = self._blank or (blank and not line.strip()) or self.THREAD.match(line) or self.FRAME.match(line)
        own = own or self.BELATED.match(line)
        return [] if own else [line]


before_words: Callable[[], None] | None = None  # makes room on the screen, where a progress line stands


class Words:
    """What the JVM writes to one of its descriptors, read through a pipe and passed on to ours."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._read, self.write = os.pipe()
        self._lock = threading.Lock()
        self._held: list[bytes] | None = []
        self.muted = False
        self._thread = threading.Thread(target=self._pump, name=f"spark-words-{descriptor}", daemon=True)

    def listen(self) -> None:
        """From now on only the JVM has the writing end, so that reading ends when it does."""
        os.close(self.write)
        self._thread.start()
        atexit.register(self._drain)

    def started(self) -> None:
        """Pass on the lines that were held back, except greetings, and hold back no more."""
        with self._lock:
            held, self._held = self._held or [], None
            for line in held:
                if not GREETING.match(line):
                    self._pass_on(line)

    def failed(self) -> list[str]:
        """The output of a JVM that did not start."""
        self._thread.join(_SECONDS_FOR_LAST_OUTPUT)
        with self._lock:
            held, self._held = self._held or [], []
        return [line.decode(errors="replace").rstrip() for line in held if not GREETING.match(line)]

    def _pump(self) -> None:
        chatter = None if log_is_shown() else Chatter()
        with open(self._read, "rb", closefd=False) as lines:
            for line in lines:
                with self._lock:
                    if self._held is not None:
                        self._held.append(line)
                        continue
                    for other in [line] if chatter is None else chatter.others(line):
                        self._pass_on(other)

    def _pass_on(self, line: bytes) -> None:
        if self.muted:
            return
        # By the descriptor, as the JVM itself would: Python's own streams may be gone when the program ends.
        with contextlib.suppress(OSError, ValueError):
            if before_words is not None:
                before_words()
            os.write(self._descriptor, line)

    def _drain(self) -> None:
        end = time.monotonic() + _SECONDS_FOR_LAST_OUTPUT
        with contextlib.suppress(OSError, ValueError):
            while time.monotonic() < end and self._thread.is_alive() and select.select([self._read], [], [], 0)[0]:
                time.sleep(0.01)


class Start:
    """A JVM that is up, whose Spark is not yet: the caller says how that went."""

    def __init__(self) -> None:
        self.out, self.err = Words(1), Words(2)
        self.process: subprocess.Popen[bytes] | None = None  # None: pyspark was given a JVM that runs already

    def listen(self) -> None:
        self.out.listen()
        self.err.listen()

    def succeeded(self) -> None:
        self.out.started()
        self.err.started()

    def failed(self) -> list[str]:
        return self.err.failed() + self.out.failed()

    def end(self) -> None:
        """End the JVM, whatever it is at, and wait until it is gone."""
        if self.process is None:
            return
        try:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_SECONDS_TO_END)
        finally:  # also if the user presses Ctrl-C again
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()


_started: list[Start] = []


def mute() -> None:
    """From now on nothing that the JVM or its workers print is of interest: the job is being stopped."""
    if not log_is_shown():
        for start in _started:
            start.out.muted = start.err.muted = True


def log_is_shown() -> bool:
    """Whether the user wants to see Spark's log here."""
    return LEVEL in os.environ and TO not in os.environ


def log_to(file: Path | None) -> None:
    """Have Spark's log written to a file (None: to standard error); before the JVM starts, which reads it from the
    environment."""
    os.environ.setdefault(LEVEL, "info")
    if file is not None:
        os.environ[TO], os.environ[FILE] = "file", str(file.absolute())


def launch(settings: Mapping[str, str], master: str) -> Start:
    """Start the JVM with these settings and make it the one that pyspark talks to."""
    from pyspark import SparkContext, java_gateway
    from pyspark.conf import SparkConf
    from pyspark.errors import PySparkRuntimeError

    _filter_log()
    start = Start()
    _started.append(start)
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    gateway_of: Any = java_gateway.launch_gateway
    try:
        with ended_if_interrupted(), _recorded(start):
            gateway = gateway_of(conf, {"stdout": start.out.write, "stderr": start.err.write})
    except (PySparkRuntimeError, OSError) as error:
        start.listen()
        raise failure(master, start.failed() or [str(error)]) from None
    start.listen()
    with ended_if_interrupted():
        SparkContext._ensure_initialized(gateway=gateway)
    return start


@contextlib.contextmanager
def ended_if_interrupted() -> Iterator[None]:
    """Ctrl-C while Spark starts ends the JVM. Nothing is said to it any more: it may be in the middle of an answer."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        mute()
        for start in _started:
            start.end()
        raise


@contextlib.contextmanager
def _recorded(start: Start) -> Iterator[None]:
    """Record the process of the JVM when it starts; pyspark gives access to it only when the JVM has answered."""
    from pyspark import java_gateway

    module: Any = java_gateway
    popen = module.Popen

    def record(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        with StopRequest(waits=False) as stop:  # an interruption in here would lose the process
            process: subprocess.Popen[bytes] = popen(*arguments, **options)
            start.process = process
        if stop.asked:
            raise KeyboardInterrupt
        return process

    module.Popen = record
    try:
        yield
    finally:
        module.Popen = popen


def _filter_log() -> None:
    """py4j writes a stack trace to the root logger, which prints by default, for each call that is cut off."""
    if not log_is_shown():
        logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def shut_down() -> None:
    """End a JVM whose Spark did not start, so that another start begins anew."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        with contextlib.suppress(Exception):
            gateway.proc.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None


def failure(master: str, said: list[str]) -> EddylineError:
    """One sentence out of what Java said.

    >>> print(failure("yarn", ["Exception in thread main a.RuntimeException: no YARN_CONF_DIR is set.", "\tat x"]))
    Spark did not start on 'yarn': no YARN_CONF_DIR is set; check --master, or run without Spark: --runtime inline.
    """
    return EddylineError(
        f"Spark did not start on {master!r}: {reason(said)}; check --master, or run without Spark: --runtime inline."
    )


def reason(said: list[str]) -> str:
    """The innermost cause of a Java stack trace, without the names of exceptions.

    >>> reason(["org.apache.spark.SparkException: Could not parse Master URL: 'x'", "\tat a.b"])
    "Could not parse Master URL: 'x'"
    >>> reason(["a.B: outer", "\tat c", "Caused by: java.net.BindException: Cannot assign requested address", "\tat d"])
    'Cannot assign requested address'
    """
    lines = [line.strip() for line in said if line.strip() and not re.match(r"\s+(at|\.\.\.) ", line)]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    chosen = causes[-1] if causes else next((line for line in lines if "xception" in line or "rror" in line), "")
    chosen = chosen or (lines[0] if lines else "it said nothing")
    chosen = re.sub(r"^(Caused by: |: )?(Exception in thread \S+ )?([\w$]+\.)+[\w$]*(Exception|Error): ", "", chosen)
    return chosen.rstrip(". ")
