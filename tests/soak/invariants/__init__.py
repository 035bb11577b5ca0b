"""The invariants of the soak, one function each: from evidence to a verdict, without a look at anything else."""
