"""Sources and sinks, one connector per file; ``resolve.open_source`` and ``sinks.open_sink`` find the right one."""
