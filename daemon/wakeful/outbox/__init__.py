"""People hear of it: events of the outbox become alerts, and alerts become messages to sinks, until they arrive."""
