"""COLLECT's work: visit a place's site through several channels and tell what each of them gave.

`survey` runs the channels; `fetch` is the only part that touches the network, with `robots` and `addresses` as its
guards; `page`, `xmltext` and the parsing halves of `channels` are pure.
"""
