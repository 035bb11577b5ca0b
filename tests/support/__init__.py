"""What the tests stand on: a private server, a database for each test, a proxy that breaks, and jobs made by hand."""
