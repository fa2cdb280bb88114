"""Counts and times of a server, in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

#: Upper limits of the classes of times, in seconds.
LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What a server has done since it started."""

    def __init__(self) -> None:
        #: Answers to requests for inferences, by status.
        self.answers: Counter[int] = Counter()
        self.calls = self.requests_in_calls = 0
        self._classes = [0] * (len(LIMITS) + 1)
        self._seconds = 0.0

    def count_answer(self, status: int, seconds: float) -> None:
        self.answers[status] += 1
        self._classes[bisect_left(LIMITS, seconds)] += 1
        self._seconds += seconds

    def count_call(self, requests: int) -> None:
        """Count a call of the model that runs several requests."""
        self.calls += 1
        self.requests_in_calls += requests

    def text(self, waiting: int) -> str:
        """Return all figures; `waiting` is the present length of the queue."""
        lines = ["# TYPE mdtensor_requests_total counter"]
        lines += [
            f'mdtensor_requests_total{{status="{status}"}} {count}'
            for status, count in sorted(self.answers.items())
        ]
        lines.append("# TYPE mdtensor_request_seconds histogram")
        total = 0
        for limit, count in zip((*LIMITS, "+Inf"), self._classes, strict=True):
            total += count
            lines.append(f'mdtensor_request_seconds_bucket{{le="{limit}"}} {total}')
        lines += [
            f"mdtensor_request_seconds_sum {self._seconds:.6f}",
            f"mdtensor_request_seconds_count {total}",
            "# TYPE mdtensor_model_calls_total counter",
            f"mdtensor_model_calls_total {self.calls}",
            "# TYPE mdtensor_model_requests_total counter",
            f"mdtensor_model_requests_total {self.requests_in_calls}",
            "# TYPE mdtensor_requests_waiting gauge",
            f"mdtensor_requests_waiting {waiting}",
        ]
        return "\n".join(lines) + "\n"
