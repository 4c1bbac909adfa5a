"""The words for the closed sets: stages, phases, decisions, outcomes, verdicts. One word per idea, as in the glossary."""

from __future__ import annotations

from bot.blocks.texts import N_
from playbooks.vocabulary import (
    DecisionKind,
    DriverVerdict,
    JobKind,
    JobOutcome,
    Outcome,
    Phase,
    Role,
    Stage,
)

STAGES: dict[Stage, str] = {
    Stage.CONTAINER_INIT: N_("container initialisation"),
    Stage.DEVICE_RECOGNITION: N_("device recognition"),
    Stage.WEIGHT_LOADING: N_("weight loading"),
    Stage.ENGINE_INIT: N_("engine initialisation"),
    Stage.ENDPOINT_READY: N_("endpoint ready"),
    Stage.SERVING: N_("serving"),
    Stage.NONE: N_("nothing"),
}
PHASES: dict[Phase, str] = {
    Phase.FREEZE: N_("freeze"),
    Phase.BOUNDARY: N_("boundary"),
    Phase.LAUNCH: N_("launch"),
    Phase.REGRESSION: N_("regression"),
    Phase.ADD_BACK: N_("add-back"),
    Phase.DECISION: N_("decision"),
    Phase.CHANGE: N_("change"),
    Phase.OBSERVE: N_("observe"),
    Phase.CLOSED: N_("closed"),
}
DECISIONS: dict[DecisionKind, str] = {
    DecisionKind.UPGRADE_DRIVER: N_("upgrade the driver"),
    DecisionKind.ISOLATE: N_("isolate on another environment"),
    DecisionKind.ROLL_BACK: N_("roll back"),
    DecisionKind.REBUILD_IMAGE: N_("rebuild the image for the older CUDA"),
    DecisionKind.REPLACE_IMAGE: N_("replace the image"),
    DecisionKind.FIX_CONFIG: N_("fix the configuration"),
    DecisionKind.FIX_FILES: N_("fix the model files"),
    DecisionKind.FIX_CONTAINER_RUNTIME: N_("fix the container runtime"),
    DecisionKind.FIX_COMMUNICATION: N_("fix the communication"),
    DecisionKind.FIX_CAPACITY: N_("fix the capacity"),
    DecisionKind.FIX_HARDWARE: N_("fix the hardware"),
    DecisionKind.REPORT_UPSTREAM: N_("report upstream"),
    DecisionKind.STOP_ROUTE: N_("stop this route"),
    DecisionKind.HOLD: N_("hold"),
}
OUTCOMES: dict[Outcome, str] = {
    Outcome.READY: N_("ready"),
    Outcome.FAILED: N_("failed"),
    Outcome.STOPPED_BY_LIMIT: N_("stopped by a time limit"),
    Outcome.NOT_OBSERVED: N_("not observed"),
}
JOBS: dict[JobKind, str] = {
    JobKind.COLLECT: N_("save the scene"),
    JobKind.FINGERPRINT: N_("read the fingerprint"),
    JobKind.LAUNCH: N_("launch attempt"),
    JobKind.REQUEST: N_("fixed request"),
    JobKind.LADDER: N_("pressure ladder"),
    JobKind.CACHE_PROBE: N_("cache probe"),
    JobKind.FEATURE_PROBE: N_("feature probe"),
    JobKind.STOP: N_("stop"),
    JobKind.SWEEP: N_("sweep"),
}
JOB_OUTCOMES: dict[JobOutcome, str] = {
    JobOutcome.DONE: N_("done"),
    JobOutcome.INCONCLUSIVE: N_("could not find out"),
    JobOutcome.REFUSED: N_("refused by the node, nothing was started"),
    JobOutcome.CANCELLED: N_("cancelled"),
    JobOutcome.LOST: N_("lost: the worker died while it ran; it is not run again by itself"),
}
DRIVER_VERDICTS: dict[DriverVerdict, str] = {
    DriverVerdict.SUPPORTED: N_("supported"),
    DriverVerdict.COMPAT_ONLY: N_("works through the compatibility package only"),
    DriverVerdict.BLOCKED: N_("blocked"),
    DriverVerdict.UNKNOWN: N_("cannot tell"),
}
FIELD_VERDICTS: dict[str, str] = {
    "differs": N_("differs"),
    "not_readable": N_("not readable"),
    "agrees": N_("agrees"),
    "read": N_("read"),
    "absent": N_("absent"),
}
REQUEST_VERDICTS: dict[str, str] = {
    "stable": N_("stable"),
    "unstable": N_("unstable"),
    "once": N_("once - one success is not stable"),
    "failed": N_("failed"),
    "inconclusive": N_("inconclusive"),
}
CACHE_VERDICTS: dict[str, str] = {
    "hit": N_("hits"),
    "repeat_only": N_("only exact repeats hit"),
    "miss": N_("no hits"),
    "disabled": N_("the cache is off"),
    "inconclusive": N_("inconclusive"),
    "contaminated": N_("disturbed by other traffic"),
}
FEATURE_NAMES: dict[str, str] = {
    "tool_call": N_("tool calls"),
    "structured_output": N_("structured output"),
    "reasoning": N_("the reasoning field"),
    "vision": N_("vision"),
    "long_context": N_("long context"),
    "speculative_decoding": N_("speculative decoding"),
}
FEATURE_VERDICTS: dict[str, str] = {
    "works": N_("works"),
    "sometimes": N_("works now and then"),
    "fails": N_("fails"),
    "untested": N_("untested - this engine cannot do it"),
    "inconclusive": N_("inconclusive"),
}
FEATURE_FAILURES: dict[str, str] = {
    "no_answer": N_("no answer"),
    "cannot": N_("refused: not started for it"),
    "cut_stream": N_("the answer was cut"),
    "wrong_tool": N_("another tool was called"),
    "invalid_arguments": N_("arguments that break the schema"),
    "raw_markers": N_("raw markers of a call in the text"),
    "call_in_reasoning": N_("the call is inside the reasoning"),
    "empty_tool_calls": N_("empty `tool_calls`"),
    "no_call": N_("no call"),
    "truncated": N_("cut at `max_tokens`"),
    "not_json": N_("no JSON"),
    "schema_violated": N_("JSON that breaks the schema"),
    "think_in_content": N_("the thinking stands in the text"),
    "no_reasoning": N_("no reasoning"),
    "no_content": N_("no text after the reasoning"),
    "wrong_answer": N_("a wrong answer"),
    "no_finish": N_("no finish reason"),
}
LADDER_VERDICTS: dict[str, str] = {
    "climbed": N_("every rung held"),
    "capacity": N_("context or cache capacity"),
    "scheduling": N_("scheduling or memory allocation"),
    "environment": N_("the environment"),
    "short_unstable": N_("the short request is not stable"),
    "inconclusive": N_("inconclusive"),
}
CAUSE_STATES: dict[str, str] = {
    "excluded": N_("excluded"),
    "suspected": N_("suspected"),
    "unknown": N_("not known"),
}
ROLES: dict[Role, str] = {
    Role.VIEWER: N_("viewer"),
    Role.RESPONDER: N_("responder"),
    Role.APPROVER: N_("approver"),
}
CONFIDENCE: dict[str, str] = {
    "certain": N_("certain: an exact signature"),
    "likely": N_("likely: a family signature or a derived stage"),
    "unsure": N_("unsure"),
}
