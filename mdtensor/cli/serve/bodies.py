"""Bodies of requests, limited in size, in time, and all together in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request as HttpRequest

from mdtensor.cli.serve.batches import Busy

#: How many bodies of the largest size the server holds at a time.
AT_A_TIME = 8


class TooLarge(ValueError):
    """A body is larger than allowed."""


class TooSlow(TimeoutError):
    """A body did not arrive in time."""


# Reserved before it is read, or a few clients could fill memory (decision 0073).
class Bodies:
    """Readers of bodies that share a limit of memory.

    Args:
        most: the most bytes of a body.
        seconds: the time in which it must arrive.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = most, seconds
        self._held = 0

    @asynccontextmanager
    async def read(self, request: HttpRequest) -> AsyncIterator[bytes]:
        """Yield the body of a request; its memory is reserved until the end.

        Raises:
            TooLarge: it is, or claims to be, larger than allowed.
            TooSlow: it did not arrive in time.
            Busy: too many bodies are held at this time.
        """
        size = self._announced(request)
        if self._held + size > AT_A_TIME * self.most:
            raise Busy(f"requests of {self._held} bytes are held. Try again later.")
        self._held += size
        try:
            yield await self._whole(request)
        finally:
            self._held -= size

    def _announced(self, request: HttpRequest) -> int:
        """Return the bytes to reserve: what the client announces, or else the most."""
        text = request.headers.get("content-length", "")
        size = int(text) if text.isdecimal() else self.most
        self._check(size)
        return size

    def _check(self, size: int) -> None:
        if size > self.most:
            raise TooLarge(
                f"the request has {size} bytes or more, of {self.most} allowed. Send "
                "less at once, or start the server with a larger --max-megabytes."
            )

    async def _whole(self, request: HttpRequest) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(self.seconds):
                async for part in request.stream():
                    size += len(part)
                    self._check(size)
                    parts.append(part)
        except TimeoutError:
            raise TooSlow(
                f"the request did not arrive in {self.seconds:g} s; {size} bytes came."
            ) from None
        return b"".join(parts)
