"""``eddyline shell``: a line editor for CQL, against a session in this process or a server (thesis 2.6)."""
