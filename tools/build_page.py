"""Build the server's page (``web/``) into the package, and note of which sources it is.

Needs Node and npm, and only for a change of the page: what is built is part of the repository. A test compares the note
with the sources, without Node.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB, BUILT = ROOT / "web", ROOT / "src" / "eddyline" / "server" / "static"
NOTE = BUILT / "sources.sha256"


def digest() -> str:
    """Of all that the page is built from."""
    found = hashlib.sha256()
    named = [WEB / n for n in ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")]
    for path in [*named, *sorted((WEB / "src").iterdir())]:
        found.update(f"{path.relative_to(WEB)}\n".encode())
        found.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return found.hexdigest()


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print("building the page needs Node with npm on the PATH.", file=sys.stderr)
        return 2
    if not (WEB / "node_modules").is_dir():
        subprocess.run([npm, "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True)
    subprocess.run([npm, "run", "--silent", "build"], cwd=WEB, check=True)
    NOTE.write_text(digest() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
