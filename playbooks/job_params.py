"""What a job is asked for, by its kind: the `params` of a `JobRequest`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from playbooks.judging.baseline import FixedSample
from playbooks.judging.feature_facts import Feature


class Params(BaseModel):
    """Base of all parameters: unknown keys are kept out of the way, so that a newer sender still parses."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class LaunchParams(Params):
    """Of `launch`. The engine is held after readiness until `hold_s` is over (the policy caps it); 0 = stopped at once."""

    hold_s: int = 0
    repeat: int = 0
    """Further attempts of the same baseline; the bot asks for the next one when this one was observed."""
    expect_tenants: tuple[str, ...] | None = None
    """Who else used the GPUs at the attempt before: a repeat beside others is not started. None = whoever it is."""


class RequestParams(Params):
    """Of `request`: which held attempt is asked (never a URL), and how often."""

    target_attempt: int
    sample: FixedSample
    runs: int = 3
    timeout_s: int = 120


class CacheProbeParams(Params):
    """Of `cache_probe`: the held attempt whose prefix cache is probed, how often, and how long one request may take."""

    target_attempt: int
    rounds: int = 2
    timeout_s: int = 120


class LadderParams(Params):
    """Of `ladder`: the held attempt, and the bounds. Lengths and `most_tokens` in tokens; `total_s` of the whole ladder."""

    target_attempt: int
    longest_input: int = 32768
    longest_output: int = 1024
    most_at_once: int = 8
    most_tokens: int = 400_000
    total_s: int = 1800
    timeout_s: int = 120


class FeatureProbeParams(Params):
    """Of `feature_probe`: the held attempt, the feature, how often it is tried, and how long one try may take."""

    target_attempt: int
    feature: Feature
    tries: int = 20
    timeout_s: int = 120


class FingerprintParams(Params):
    """Of `fingerprint`: what to look into besides the host; at most one of the three."""

    container: str | None = None
    image: str | None = None
    python: str | None = None
    model_path: str | None = None


class CollectParams(Params):
    """Of `collect`: the running or dead container whose scene is saved; None = the host's side only."""

    container: str | None = None


class StopParams(Params):
    """Of `stop`: the job that is to end, or the attempt whose held engine is to end."""

    job_id: str | None = None
    attempt: int | None = None
