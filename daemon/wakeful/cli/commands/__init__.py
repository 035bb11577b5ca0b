"""The commands: one module each, with `register(commands)`, which adds it to the command line."""
