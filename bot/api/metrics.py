"""Prometheus metrics: what the process counts itself, and what the store says when it is asked."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from bot.errors import StoreError
from bot.ports import OutboxState

if TYPE_CHECKING:
    from bot.flows.services import Services

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 30.0)
_ROWS = 10_000


class Metrics:
    """The process's own counters, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._flows = Histogram(
            "baseline_flow_seconds",
            "Time a flow took, by flow and outcome (ok, busy, unavailable, error)",
            ("flow", "outcome"),
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self._requests = Counter(
            "baseline_http_requests_total",
            "HTTP requests by method, route and status",
            ("method", "route", "status"),
            registry=self.registry,
        )

    def flow(self, name: str, seconds: float, outcome: str) -> None:
        """Count a flow."""
        self._flows.labels(name, outcome).observe(seconds)

    def request(self, method: str, route: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()


class _StoreCollector(Collector):
    """Reads jobs, outbox and nodes from the store at each scrape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("baseline_store_up", "Whether the incident store answers")
        try:
            found = list(self._read())
        except StoreError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from found

    def _read(self) -> Iterator[Metric]:
        now = self._services.clock.now()
        with self._services.store.read() as reading:
            jobs = reading.jobs()
            rows = reading.outbox(states=[OutboxState.WAITING, OutboxState.MARKED], limit=_ROWS)
            nodes = {node.name: node for node in reading.nodes()}
            leases = {name: reading.lease(name) is not None for name in self._services.nodes}
            incidents = len(reading.incidents(open_only=True, limit=_ROWS))
        active = GaugeMetricFamily("baseline_jobs_active", "Jobs not ended, by state", labels=["state", "kind"])
        for (state, kind), count in Tally((job.state.value, job.kind.value) for job in jobs).items():
            active.add_metric([state, kind], count)
        yield active
        waiting = GaugeMetricFamily("baseline_outbox_waiting", "Outbox rows not sent yet", labels=["kind"])
        for row_kind, count in Tally(row.kind.value for row in rows).items():
            waiting.add_metric([row_kind], count)
        yield waiting
        yield GaugeMetricFamily("baseline_incidents_open", "Open incidents", value=incidents)
        silent = GaugeMetricFamily(
            "baseline_node_silent_seconds", "Seconds since a node's last hello; -1 never", labels=["node"]
        )
        held = GaugeMetricFamily("baseline_node_leased", "Whether a job holds the node's GPUs", labels=["node"])
        for name in self._services.nodes:
            node = nodes.get(name)
            heard = node.heard_at if node is not None else None
            silent.add_metric([name], -1 if heard is None else (now - heard).total_seconds())
            held.add_metric([name], int(leases[name]))
        yield silent
        yield held


def render(metrics: Metrics, services: Services) -> bytes:
    """Return the page that Prometheus reads."""
    from_store = CollectorRegistry()
    from_store.register(_StoreCollector(services))
    return generate_latest(metrics.registry) + generate_latest(from_store)
