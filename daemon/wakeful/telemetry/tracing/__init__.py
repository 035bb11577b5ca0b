"""OpenTelemetry, where a process has it: what a job carries of a trace, the spans of sending, of running, of its steps.

`carrier` knows the W3C's texts and no library; `spans` and `blocks` alone import one, and `joining` is the only way to
them: where nobody has loaded the library, all of this is a look into a dictionary (ADR 0050).
"""
