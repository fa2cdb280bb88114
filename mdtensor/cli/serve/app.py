"""The paths of the Open Inference Protocol for one model."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

import mdtensor
from mdtensor.cli.serve import protocol
from mdtensor.cli.serve.batches import Batches, Busy
from mdtensor.cli.serve.bodies import Bodies, TooLarge, TooSlow
from mdtensor.cli.serve.metrics import CONTENT_TYPE, Metrics
from mdtensor.errors import DataError, MdtensorError

LOG = logging.getLogger("mdtensor.serve")
VERSION = "1"
#: The status that nginx logs for a client that has gone; nobody reads the answer.
GONE = 499
#: The status for each class of error, most specific first.
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (TooLarge, 413),
    (TooSlow, 408),
    (Busy, 503),
    (ClientDisconnect, GONE),
    (TimeoutError, 504),
    (MdtensorError, 400),
)


class Service:
    """A model with its queue and limits.

    Args:
        name: the name in paths.
        batches: the queue in front of the model.
        bodies: the reader of requests.
        seconds: how long a request may wait for its result.
        metrics: what counts answers.
    """

    def __init__(
        self,
        name: str,
        batches: Batches,
        bodies: Bodies,
        seconds: float,
        metrics: Metrics,
    ) -> None:
        self.name, self.batches, self.bodies = name, batches, bodies
        self.seconds, self.metrics = seconds, metrics
        self.network = batches.network
        self.is_ready = False
        specs = self.network.graph.specs()
        results = {name: specs[name] for name in self.network.outputs}
        #: The metadata of the model.
        self.about = {
            "name": name,
            "versions": [VERSION],
            "platform": "mdtensor",
            "inputs": protocol.described(self.network.inputs),
            "outputs": protocol.described(results),
        }

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        self.batches.start()
        self.is_ready = True
        yield
        self.is_ready = False
        await self.batches.stop()

    def app(self) -> Starlette:
        """Return the application with all paths."""
        model = "/v2/models/{name}"
        return Starlette(
            routes=[
                Route("/v2", self.server),
                Route("/v2/health/live", self.live),
                Route("/v2/health/ready", self.ready),
                *self._of_model(model),
                *self._of_model(model + "/versions/{version}"),
                Route("/metrics", self.figures),
            ],
            lifespan=self.lifespan,
        )

    def _of_model(self, path: str) -> list[Route]:
        return [
            Route(path, self.known(self.metadata)),
            Route(path + "/ready", self.known(self.ready)),
            Route(path + "/infer", self.known(self.infer), methods=["POST"]),
        ]

    def known(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        """Return an answer that is 404 for models and versions that are not here."""

        async def checked(request: HttpRequest) -> Response:
            name, version = (request.path_params.get(k) for k in ("name", "version"))
            if name != self.name or version not in (None, VERSION):
                text = f"the server has the model {self.name!r}, version {VERSION}."
                return JSONResponse({"error": text}, 404)
            found: Response = await answer(request)
            return found

        return checked

    async def live(self, _: HttpRequest) -> Response:
        return JSONResponse({"live": True})

    async def ready(self, _: HttpRequest) -> Response:
        return JSONResponse({"ready": self.is_ready}, 200 if self.is_ready else 503)

    async def server(self, _: HttpRequest) -> Response:
        found = {"name": "mdtensor", "version": mdtensor.__version__}
        return JSONResponse(found | {"extensions": ["binary_tensor_data"]})

    async def figures(self, _: HttpRequest) -> Response:
        text = self.metrics.text(self.batches.waiting)
        return PlainTextResponse(text, headers={"content-type": CONTENT_TYPE})

    async def metadata(self, _: HttpRequest) -> Response:
        return JSONResponse(self.about)

    async def infer(self, request: HttpRequest) -> Response:
        start = time.perf_counter()
        try:
            answer = await self._infer(request)
        except Exception as error:
            status = next(
                (code for kind, code in STATUS if isinstance(error, kind)), 500
            )
            if status == 500:
                LOG.exception("a request failed")
            answer = JSONResponse({"error": self._text(error, status)}, status)
            # The rest of a body that nobody reads must not be taken for a request.
            if status in (408, 413):
                answer.headers["connection"] = "close"
        self.metrics.count_answer(answer.status_code, time.perf_counter() - start)
        return answer

    def _text(self, error: Exception, status: int) -> str:
        if status == 500:
            return "the server failed; its log says why."
        if status == 504:
            return f"the result was not ready in {self.seconds:g} s. Try again later."
        return str(error)

    async def _infer(self, request: HttpRequest) -> Response:
        async with self.bodies.read(request) as body:
            length = request.headers.get("inference-header-content-length")
            if length is not None and not length.isdecimal():
                problem = f"Inference-Header-Content-Length is {length!r}"
                raise DataError(problem, "Give the bytes of the JSON")
            json_bytes = None if length is None else int(length)
            asked = protocol.read_request(body, json_bytes, self.network.outputs)
            # Errors of this request must not reach a call with others.
            self.network.fed(asked.feeds)
            async with asyncio.timeout(self.seconds):
                found = await self.batches.submit(asked.feeds)
        names = asked.outputs or self.network.outputs
        head = {"model_name": self.name, "model_version": VERSION}
        if asked.id is not None:
            head["id"] = asked.id
        results = {name: found[name] for name in names}
        content, headers = protocol.write_answer(head, results, asked.binary)
        return Response(content, headers=headers)
