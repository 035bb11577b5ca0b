"""Payloads of every kind that hurts, as JSON text: for each client and each way to a handler."""

from __future__ import annotations

# As they are given, and as jsonb writes them back (its own spacing; key order and repeated keys are not kept).
KEPT = [
    ("{}", "{}"),
    ('{"a":1}', '{"a": 1}'),
    ('{"big": 9007199254740993}', '{"big": 9007199254740993}'),
    ('{"n": 9223372036854775807}', '{"n": 9223372036854775807}'),
    ('{"n": 123456789012345678901234567890}', '{"n": 123456789012345678901234567890}'),
    ('{"n": -0.1}', '{"n": -0.1}'),
    ('{"n": 0.1000000000000000055511151231257827}', '{"n": 0.1000000000000000055511151231257827}'),
    ('{"price": 10.00}', '{"price": 10.00}'),
    ('{"n": 1e3}', '{"n": 1000}'),
    ('{"n": 1e400}', '{"n": 1' + "0" * 400 + "}"),
    ('{"n": 1e-10}', '{"n": 0.0000000001}'),
    ('{"t": true, "f": false, "z": null}', '{"f": false, "t": true, "z": null}'),
    ('{"s": ""}', '{"s": ""}'),
    ('{"s": "é \\u00e9 \\ud83d\\ude00"}', '{"s": "é é 😀"}'),
    ('{"s": "a\\u0001b\\u001fc"}', '{"s": "a\\u0001b\\u001fc"}'),
    ('{"s": "\\\\u0000"}', '{"s": "\\\\u0000"}'),
    ('{"s": "</script><b>\'\\"; drop table x; --"}', '{"s": "</script><b>\'\\"; drop table x; --"}'),
    ('{"": 1, " ": 2, "a.b": 3}', '{"": 1, " ": 2, "a.b": 3}'),
    ('{"k": 1, "k": 2}', '{"k": 2}'),
    ('{"l": [1, [2, [3, {}]], []]}', '{"l": [1, [2, [3, {}]], []]}'),
    ('{"s": "\\ufffe\\uffff"}', '{"s": "\ufffe\uffff"}'),
    ('{"NaN": "NaN", "inf": "Infinity"}', '{"NaN": "NaN", "inf": "Infinity"}'),
]

# What PostgreSQL refuses while it reads them: text, SQLSTATE, a part of the message.
NO_JSON = [
    (r'{"s": "\u0000"}', "22P05", "unsupported Unicode escape sequence"),
    (r'{"\u0000": 1}', "22P05", "unsupported Unicode escape sequence"),
    (r'{"s": "\ud800"}', "22P02", "invalid input syntax for type json"),
    (r'{"s": "\ude00\ud83d"}', "22P02", "invalid input syntax for type json"),
    ('{"n": NaN}', "22P02", "invalid input syntax for type json"),
    ('{"n": Infinity}', "22P02", "invalid input syntax for type json"),
    ('{"n": 01}', "22P02", "invalid input syntax for type json"),
    ('{"n": 1e200000}', "22003", "value overflows numeric format"),
    ("{'a': 1}", "22P02", "invalid input syntax for type json"),
    ('{"a": 1,}', "22P02", "invalid input syntax for type json"),
    ("", "22P02", "invalid input syntax for type json"),
    ('{"s": "a\nb"}', "22P02", "invalid input syntax for type json"),
]
