"""The channels: each is one `look(visit) -> Found` in a file of its own, with its parsing as plain functions beside it.

A channel raises ChannelTrouble when what it needs can't be read, Skipped when there is no way to look; `survey`
turns all of that into the channel's line of the result.
"""
