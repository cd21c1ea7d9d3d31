"""Index tuning for joins whose tuples take many routes (AMRI): assessment, selection, scheduling and migration.

Works, Rundensteiner and Agu, *Optimizing adaptive multi-route query processing via time-partitioned indices*, 2012.
Statistics in, index configurations out: no file here knows an operator, a clock or Spark.
"""
