"""The server: sessions behind HTTP, with a catalog and results that survive a restart (``docs/server.md``)."""
