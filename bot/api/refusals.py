"""Every answer in words: which of our errors is which status, and the one form of its body."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot import errors
from playbooks import errors as core
from playbooks.messages import Refusal

STATUS: dict[type[Exception], tuple[int, str]] = {
    core.BadSignature: (401, "bad_signature"),
    core.MalformedMessage: (400, "malformed"),
    core.UnknownSchema: (400, "unknown_schema"),
    core.NotCanonical: (400, "malformed"),
    errors.ClockApart: (401, "clock_apart"),
    errors.NotThatNode: (403, "not_that_node"),
    errors.Replayed: (409, "replayed"),
    errors.StaleFence: (409, "stale_fence"),
    errors.UnknownIncident: (404, "unknown_incident"),
    errors.UnknownJob: (404, "unknown_job"),
    errors.UnknownArtifact: (404, "unknown_artifact"),
    errors.DigestMismatch: (409, "digest_mismatch"),
    errors.Refused: (409, "refused"),
    errors.StoreConflict: (409, "conflict"),
    errors.StoreError: (503, "store_unavailable"),
    errors.ArtifactError: (503, "artifacts_unavailable"),
}
"""By error class; a subclass that is not named takes its parent's row."""
RETRY_AFTER_S = 1


def refusal(status: int, error: str, detail: str = "", *, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a refusal."""
    body = Refusal(error=error, detail=detail).model_dump(mode="json")
    return JSONResponse(body, status_code=status, headers=headers)


def of_error(error: Exception) -> JSONResponse:
    """Return the refusal that stands for one of our errors; any other is raised again."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            status, name = STATUS[kind]
            headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
            return refusal(status, name, str(error), headers=headers)
    raise error


def add_handlers(app: FastAPI) -> None:
    """Answer our errors, and FastAPI's own, in the one form."""

    async def ours(_request: Request, error: Exception) -> Response:
        return of_error(error)

    async def theirs(_request: Request, error: Exception) -> Response:
        if isinstance(error, RequestValidationError):
            places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
            return refusal(400, "malformed", places)
        if isinstance(error, HTTPException):
            names = {404: "not_found", 405: "method_not_allowed"}
            return refusal(error.status_code, names.get(error.status_code, "refused"), str(error.detail))
        raise error

    for kind in (
        core.MessageError,
        core.NotCanonical,
        errors.NodeRefused,
        errors.Refused,
        errors.StoreError,
        errors.ArtifactError,
    ):
        app.add_exception_handler(kind, ours)
    app.add_exception_handler(RequestValidationError, theirs)
    app.add_exception_handler(HTTPException, theirs)
