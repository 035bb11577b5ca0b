"""A registered handler: its declaration, its function, and the name that stays in the author's module.

Invariant: values only; a handler is never changed after its registration. How it is called is `handlers.invoke`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from wakeful.core import backoff, jsontext
from wakeful.core.declaration import Declaration
from wakeful.core.durations import parse_duration
from wakeful.handlers.client import Enqueued, encode_payload, enqueue_encoded
from wakeful.handlers.options import EnqueueOptions
from wakeful.handlers.payloads import PayloadType

P = ParamSpec("P")
R = TypeVar("R")

Backoff = Callable[[int], object]
Call = Callable[[], Awaitable[object]]
Around = Callable[[Any, Call], Awaitable[object]]


@dataclass(slots=True, kw_only=True)
class Home:
    """What the handlers of one registry share: the hook round each attempt, and the lifespan of their resources."""

    around: Around | None = None
    lifespan: Callable[[], Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """One job type and the function that runs its jobs: on the loop, or in a thread."""

    declaration: Declaration
    function: Callable[..., object]
    runs_on_loop: bool
    takes_payload: bool
    payload: PayloadType
    backoff: Backoff | None
    home: Home = field(repr=False, compare=False)

    @property
    def job_type(self) -> str:
        """The job type that this handler runs."""
        return self.declaration.job_type

    @property
    def around(self) -> Around | None:
        """The hook round each attempt, if its registry has one."""
        return self.home.around

    @property
    def is_isolated(self) -> bool:
        """Whether its jobs run in a process of their own."""
        return self.declaration.isolation == "process"

    def bind(self, payload: object) -> object:
        """Give the payload as the declared type; raises InvalidPayload."""
        return self.payload.bind(payload, self.declaration.secret_paths)

    def delay(self, attempt: int) -> float:
        """Give the seconds to wait after failed attempt number `attempt`, without jitter.

        A type's own backoff that raises or gives nonsense is as if it were not there: the product's delay holds.
        """
        if self.backoff is None:
            return backoff.delay(attempt)
        try:
            return parse_duration(self.backoff(attempt))
        except Exception:  # noqa: BLE001 -- the author's function, like a handler's call
            return backoff.delay(attempt)


@dataclass(frozen=True, slots=True)
class JobType(Generic[P, R]):
    """What `@registry.job` leaves in the module: called like the function, and able to enqueue a checked job."""

    handler: Handler
    function: Callable[P, R]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the handler's function as it is, for instance in a test of it."""
        return self.function(*args, **kwargs)

    @property
    def job_type(self) -> str:
        """The name that producers enqueue."""
        return self.handler.job_type

    async def enqueue(
        self,
        connection: Any,
        payload: object = None,
        /,
        *,
        options: EnqueueOptions | None = None,
        **fields: object,
    ) -> Enqueued:
        """Enqueue a job on the caller's own connection or transaction; give its payload, or the payload's fields.

        Raises InvalidPayload where they do not fit the handler's type, and what `wakeful.enqueue` raises.
        """
        if payload is not None and fields:
            raise TypeError("give the payload or its fields, not both")
        text = self.encode_payload(fields if payload is None else payload)
        declared = self.handler.declaration.queue
        return await enqueue_encoded(
            connection, self.job_type, text, options or EnqueueOptions(), queue=declared
        )

    def encode_payload(self, payload: object) -> str:
        """Give a payload, checked against the handler's type, as JSON text; raises InvalidPayload or ValueError."""
        text = encode_payload(payload)
        self.handler.bind(jsontext.loads(text))
        return text
