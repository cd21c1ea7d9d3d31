"""Disorder of streams: how long to wait for rows that come late, and which rows cannot be what they say."""
