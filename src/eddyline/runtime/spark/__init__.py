"""The same engine on Spark: rows become per-shard Arrow blobs, and every shard runs the inline engine on its own."""
