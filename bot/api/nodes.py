"""What nodes say about their jobs and themselves."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from bot.api.envelopes import from_body, same, signed
from bot.api.state import Api
from bot.flows.claim_job import claim_job
from bot.flows.heartbeat import heartbeat
from bot.flows.node_hello import node_hello
from bot.flows.record_progress import record_progress
from bot.flows.record_report import record_report
from playbooks.messages import Claim, Heartbeat, JobReport, NodeHello, Progress


def node_routes(api: Api) -> APIRouter:
    """Return the routes of jobs and hellos."""
    router = APIRouter()
    services = api.services

    @router.post("/jobs/{job_id}/claim")
    async def claim(job_id: str, request: Request) -> Response:
        """May this job start?"""
        said = await from_body(request, services, Claim)
        same(job_id, said.job_id, "job")
        return signed(services, await services.run(claim_job, services, said))

    @router.post("/jobs/{job_id}/heartbeat")
    async def beat(job_id: str, request: Request) -> Response:
        """The job is alive; is it to end?"""
        said = await from_body(request, services, Heartbeat)
        same(job_id, said.job_id, "job")
        return signed(services, await services.run(heartbeat, services, said))

    @router.post("/jobs/{job_id}/progress")
    async def progress(job_id: str, request: Request) -> Response:
        """What the job does now."""
        said = await from_body(request, services, Progress)
        same(job_id, said.job_id, "job")
        return signed(services, await services.run(record_progress, services, said))

    @router.post("/jobs/{job_id}/report")
    async def report(job_id: str, request: Request) -> Response:
        """What the job found."""
        said = await from_body(request, services, JobReport)
        same(job_id, said.job_id, "job")
        return signed(services, await api.run_slow(record_report, services, said))

    @router.post("/nodes/{name}/hello")
    async def hello(name: str, request: Request) -> Response:
        """The node is alive."""
        said = await from_body(request, services, NodeHello)
        same(name, said.node, "node")
        return signed(services, await services.run(node_hello, services, said))

    return router
