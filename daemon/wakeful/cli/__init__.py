"""The command line: results on standard output, everything else on standard error, exit codes that stay."""
