"""Identifiers and closed sets that every part of the product speaks in.

Leaves the meaning of each error class to `definitions/error-classes.yaml` and every rule to the packages above.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

IncidentId = NewType("IncidentId", str)
"""`INC-0042`: one Slack thread and the case worked in it."""
JobId = NewType("JobId", str)
"""ULID-like text, made once, in the transaction that records the wish."""
AttemptNo = NewType("AttemptNo", int)
"""Attempts of an incident, counted from 1."""
Sha256 = NewType("Sha256", str)
"""64 lower-case hex digits."""
NodeName = NewType("NodeName", str)
"""Name of a GPU node, as in the queues `node.<name>` and `node.<name>.ctl`."""
UserId = NewType("UserId", str)
"""Slack's id of a person, `U…` or `W…`."""


class Stage(StrEnum):
    """The observed stages of a launch (R4.1), and what lies after readiness.

    `StrEnum` compares as text: ask `position` for the order.
    """

    CONTAINER_INIT = "container_init"
    DEVICE_RECOGNITION = "device_recognition"
    WEIGHT_LOADING = "weight_loading"
    ENGINE_INIT = "engine_init"
    ENDPOINT_READY = "endpoint_ready"
    SERVING = "serving"
    NONE = "none"

    @property
    def position(self) -> int:
        """Place in the launch, 0 for `container_init`; `none` lies before all of them (-1)."""
        return _STAGE_ORDER.index(self) - 1


_STAGE_ORDER = (
    Stage.NONE,
    Stage.CONTAINER_INIT,
    Stage.DEVICE_RECOGNITION,
    Stage.WEIGHT_LOADING,
    Stage.ENGINE_INIT,
    Stage.ENDPOINT_READY,
    Stage.SERVING,
)
LAUNCH_STAGES = (
    Stage.CONTAINER_INIT,
    Stage.DEVICE_RECOGNITION,
    Stage.WEIGHT_LOADING,
    Stage.ENGINE_INIT,
    Stage.ENDPOINT_READY,
)


class ErrorClass(StrEnum):
    """Kinds of failure; meaning, stage and next action of each stand in `definitions/error-classes.yaml`.

    `none` is a success and `unknown` an honest "cannot tell": both are values, not classes.
    A test keeps this set and the YAML equal.
    """

    NONE = "none"
    UNKNOWN = "unknown"
    IMAGE_UNAVAILABLE = "image_unavailable"
    CONTAINER_START_FAILED = "container_start_failed"
    GPU_RUNTIME_MISSING = "gpu_runtime_missing"
    GPU_ACCESS_LOST = "gpu_access_lost"
    LIBCUDA_MISSING = "libcuda_missing"
    PYTHON_IMPORT_BROKEN = "python_import_broken"
    PYTHON_DEPENDENCY_MISSING = "python_dependency_missing"
    SHM_EXHAUSTED = "shm_exhausted"
    ULIMIT_TOO_LOW = "ulimit_too_low"
    CONTAINER_OOM_KILLED = "container_oom_killed"
    LAUNCH_ARGS_INVALID = "launch_args_invalid"
    PARSER_UNKNOWN = "parser_unknown"
    MAX_MODEL_LEN_INVALID = "max_model_len_invalid"
    PARALLEL_CONFIG_INVALID = "parallel_config_invalid"
    TRUST_REMOTE_CODE_REQUIRED = "trust_remote_code_required"
    ATTENTION_BACKEND_UNSUITABLE = "attention_backend_unsuitable"
    MOE_BACKEND_UNAVAILABLE = "moe_backend_unavailable"
    NAMED_FILE_MISSING = "named_file_missing"
    PORT_UNAVAILABLE = "port_unavailable"
    RUST_FRONTEND_FAILED = "rust_frontend_failed"
    NODE_CONFIG_MISMATCH = "node_config_mismatch"
    MODEL_PATH_NOT_FOUND = "model_path_not_found"
    MODEL_CONFIG_UNREADABLE = "model_config_unreadable"
    MODEL_UNSUPPORTED = "model_unsupported"
    TOKENIZER_LOAD_FAILED = "tokenizer_load_failed"
    HUB_AUTH = "hub_auth"
    HUB_UNREACHABLE = "hub_unreachable"
    DISK_FULL = "disk_full"
    WEIGHT_FILES_BAD = "weight_files_bad"
    WEIGHTS_MISMATCH_MODEL = "weights_mismatch_model"
    FASTSAFETENSORS_IO_ERROR = "fastsafetensors_io_error"
    DRIVER_BELOW_BOUNDARY = "driver_below_boundary"
    DRIVER_NOT_INSTALLED = "driver_not_installed"
    DRIVER_LIBRARY_MISMATCH = "driver_library_mismatch"
    FORWARD_COMPAT_UNSUPPORTED = "forward_compat_unsupported"
    CUDA_DRIVER_COMBO = "cuda_driver_combo"
    FABRIC_NOT_READY = "fabric_not_ready"
    NO_CUDA_DEVICE = "no_cuda_device"
    DEVICE_COUNT_MISMATCH = "device_count_mismatch"
    DEVICE_NOT_INFERRED = "device_not_inferred"
    CUDA_UNKNOWN_ERROR = "cuda_unknown_error"
    GPU_ARCH_UNSUPPORTED = "gpu_arch_unsupported"
    GPU_HARDWARE_FAULT = "gpu_hardware_fault"
    GSP_RPC_TIMEOUT = "gsp_rpc_timeout"
    NCCL_INIT_FAILED = "nccl_init_failed"
    NCCL_DMABUF_UNSUPPORTED = "nccl_dmabuf_unsupported"
    NCCL_ENV_MISCONFIGURED = "nccl_env_misconfigured"
    RDMA_DEVICE_UNAVAILABLE = "rdma_device_unavailable"
    RENDEZVOUS_FAILED = "rendezvous_failed"
    NODE_ADDRESS_WRONG = "node_address_wrong"
    COLLECTIVE_HANG = "collective_hang"
    ALLREDUCE_BACKEND_UNSUPPORTED = "allreduce_backend_unsupported"
    GPU_OCCUPIED = "gpu_occupied"
    OOM_WEIGHT_LOAD = "oom_weight_load"
    OOM_ENGINE_INIT = "oom_engine_init"
    OOM_RUNTIME = "oom_runtime"
    KV_CACHE_NO_MEMORY = "kv_cache_no_memory"
    KV_CACHE_BELOW_MAX_LEN = "kv_cache_below_max_len"
    HOST_MEMORY_EXHAUSTED = "host_memory_exhausted"
    PTX_TOOLCHAIN_MISMATCH = "ptx_toolchain_mismatch"
    JIT_TOOLCHAIN_UNUSABLE = "jit_toolchain_unusable"
    KERNEL_COMPILE_FAILED = "kernel_compile_failed"
    GPU_KERNEL_FAULT = "gpu_kernel_fault"
    ENGINE_READY_TIMEOUT = "engine_ready_timeout"
    ENGINE_PROCESS_KILLED = "engine_process_killed"
    WORKER_PROCESS_KILLED = "worker_process_killed"
    PROCESS_CRASHED_NATIVE = "process_crashed_native"
    ENGINE_WRAPPER_ERROR = "engine_wrapper_error"
    STEP_STALLED = "step_stalled"
    REQUEST_REJECTED = "request_rejected"
    OUTPUT_CORRUPT = "output_corrupt"
    TOOL_CALL_EMPTY = "tool_call_empty"
    ENGINE_CODE_BUG = "engine_code_bug"
    BLOCK_SIZE_INVALID = "block_size_invalid"
    PREFIX_CACHE_BELOW_UNIT = "prefix_cache_below_unit"
    PREFIX_CACHE_BOUNDARY_MISS = "prefix_cache_boundary_miss"
    PREFIX_COUNTER_UNRELIABLE = "prefix_counter_unreliable"


class DecisionKind(StrEnum):
    """What may be decided (R11.1); the same set is the `points_to` of an error class."""

    UPGRADE_DRIVER = "upgrade_driver"
    ISOLATE = "isolate"
    ROLL_BACK = "roll_back"
    REBUILD_IMAGE = "rebuild_image"
    REPLACE_IMAGE = "replace_image"
    FIX_CONFIG = "fix_config"
    FIX_FILES = "fix_files"
    FIX_CONTAINER_RUNTIME = "fix_container_runtime"
    FIX_COMMUNICATION = "fix_communication"
    FIX_CAPACITY = "fix_capacity"
    FIX_HARDWARE = "fix_hardware"
    REPORT_UPSTREAM = "report_upstream"
    STOP_ROUTE = "stop_route"
    HOLD = "hold"


class DriverVerdict(StrEnum):
    """May this host's loaded driver run this image's CUDA (R2.4)?"""

    SUPPORTED = "supported"
    COMPAT_ONLY = "compat_only"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


class Phase(StrEnum):
    """Phases of an incident (design §2), in order."""

    FREEZE = "freeze"
    BOUNDARY = "boundary"
    LAUNCH = "launch"
    REGRESSION = "regression"
    ADD_BACK = "add_back"
    DECISION = "decision"
    CHANGE = "change"
    OBSERVE = "observe"
    CLOSED = "closed"


class Outcome(StrEnum):
    """How an attempt or job ended, as observed; never a verdict on the cause."""

    READY = "ready"
    FAILED = "failed"
    STOPPED_BY_LIMIT = "stopped_by_limit"
    NOT_OBSERVED = "not_observed"


class JobOutcome(StrEnum):
    """How a job on a node ended."""

    DONE = "done"
    """The facts are complete; a launch that failed is `done` too."""
    INCONCLUSIVE = "inconclusive"
    """We could not find out; the report's `error` says why."""
    REFUSED = "refused"
    """The node's policy or the claim refused it; nothing was started."""
    CANCELLED = "cancelled"
    LOST = "lost"
    """The worker died while the job ran; swept, never run twice."""


class JobKind(StrEnum):
    """What a node may be asked to do."""

    COLLECT = "collect"
    FINGERPRINT = "fingerprint"
    LAUNCH = "launch"
    REQUEST = "request"
    LADDER = "ladder"
    CACHE_PROBE = "cache_probe"
    FEATURE_PROBE = "feature_probe"
    STOP = "stop"
    SWEEP = "sweep"

    @property
    def loads_gpu(self) -> bool:
        """Whether the job goes through `node.<name>` (one at a time) rather than `node.<name>.ctl`."""
        return self not in {JobKind.COLLECT, JobKind.FINGERPRINT, JobKind.STOP, JobKind.SWEEP}


class FieldStatus(StrEnum):
    """Status of one fingerprint field (R3.3)."""

    OK = "ok"
    ABSENT = "absent"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    ERROR = "error"
    UNSUPPORTED = "unsupported"


class Role(StrEnum):
    """What a person may do in an incident channel (R16)."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    APPROVER = "approver"
