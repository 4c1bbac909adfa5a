"""Structured logs: JSON lines for machines, short lines for a terminal; incident and job ids are fields."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


def configure_logs(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send our own logs and the libraries' to standard error in one form."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                last,
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Bolt logs whole request bodies at INFO when a signature is wrong; those may hold pasted logs.
    logging.getLogger("slack_bolt").setLevel(logging.WARNING)
    for chatty in ("uvicorn.error", "alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
