"""Other queues on the same server in turn, each from its package and by its own documents' best settings."""
