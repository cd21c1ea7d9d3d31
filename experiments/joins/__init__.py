"""The figures and tables of the thesis's chapter 5: caches in pipelines of multiway joins."""
