"""k-constraints (k-Mon): how sound, how ordered and how clustered streams are, and what a join need not keep for it.

S. Babu, *Adaptive Query Processing in Data Stream Management Systems*, 2005, chapter 6. Statistics in, decisions out:
no file here knows an operator, a clock or Spark.
"""
