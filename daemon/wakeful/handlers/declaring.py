"""From the options of `@registry.job` to a declaration, with every mistake in one message.

Invariant: a declaration made here is one that the database accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from wakeful.core.declaration import Declaration, Isolation
from wakeful.core.durations import parse_duration
from wakeful.core.names import (
    deadline_problem,
    did_you_mean,
    max_attempts_problem,
    name_problem,
    priority_problem,
)

STEPS_LIMIT: Final = 100
STEP_NAME_LIMIT_BYTES: Final = 100


def declare(
    fields: frozenset[str] | None,
    *,
    job_type: str,
    queue: str,
    priority: str,
    deadline: float | str | timedelta | None,
    max_attempts: int,
    backoff: Callable[[int], object] | None,
    subject: str | None,
    secret: Sequence[str],
    history: bool,
    owner: str | None,
    limit_key: str | None,
    steps: Sequence[str],
    isolation: Isolation | None,
) -> Declaration:
    """Give the declaration of a job type; `fields` are its payload's, where they are known. Raises ValueError."""
    problems: list[str] = []
    names = (("job type", job_type), ("queue", queue), ("owner", owner), ("limit_key", limit_key))
    problems.extend(
        f"{what} {problem}" for what, value in names if (problem := _optional_name_problem(value))
    )
    problems.extend(_kind_problems(priority, max_attempts, backoff, history))
    problems.extend(_path_problems("subject", () if subject is None else (subject,), fields))
    problems.extend(_path_problems("secret", secret, fields))
    problems.extend(_step_problems(steps))
    if isolation not in (None, "process"):
        problems.append(f'isolation {isolation!r} is neither "process" nor None')
    seconds = _deadline(deadline, problems)
    if problems:
        raise ValueError("; ".join(problems))
    return Declaration(
        job_type=job_type,
        queue=queue,
        priority=priority,
        max_attempts=max_attempts,
        declared_deadline=seconds,
        subject_path=subject,
        secret_paths=tuple(secret),
        limit_key=limit_key,
        owner=owner,
        history=history,
        steps=tuple(steps),
        isolation=isolation,
    )


def _optional_name_problem(value: str | None) -> str | None:
    return None if value is None else name_problem(value)


def _kind_problems(priority: object, max_attempts: object, backoff: object, history: object) -> Iterator[str]:
    if problem := priority_problem(priority):
        yield f"priority {problem}"
    if problem := max_attempts_problem(max_attempts):
        yield f"max_attempts {problem}"
    if backoff is not None and not callable(backoff):
        yield "backoff is not a function of the attempt's number that gives seconds"
    if not isinstance(history, bool):
        yield "history is neither True nor False"


def _deadline(deadline: object, problems: list[str]) -> float | None:
    if deadline is None:
        return None
    try:
        seconds = parse_duration(deadline)
    except ValueError as error:
        problems.append(f"deadline: {error}")
        return None
    if problem := deadline_problem(seconds):
        problems.append(f"deadline {problem}")
    return seconds


def _path_problems(what: str, paths: Sequence[str], fields: frozenset[str] | None) -> Iterator[str]:
    if isinstance(paths, str):
        yield f'{what} is a string; write a tuple: ("{paths}",)'
        return
    for path in paths:
        problem = name_problem(path)
        if problem is None and not all(path.split(".")):
            problem = "has an empty part"
        if problem is not None:
            yield f"{what} path {path!r} {problem}"
        elif fields is not None and (first := path.split(".")[0]) not in fields:
            hint = did_you_mean(first, tuple(sorted(fields)))
            yield f"{what} path {path!r}: the payload has no field {first!r}{hint}"


def _step_problems(steps: Sequence[str]) -> Iterator[str]:
    if isinstance(steps, str):
        yield f'steps is a string; write a tuple: ("{steps}",)'
        return
    if len(steps) > STEPS_LIMIT:
        yield f"steps are {len(steps)}; at most {STEPS_LIMIT} are shown"
    for index, step in enumerate(steps):
        if problem := name_problem(step, STEP_NAME_LIMIT_BYTES):
            yield f"step {step!r} {problem}"
        elif step in steps[:index]:
            yield f"step {step!r} is there twice"
