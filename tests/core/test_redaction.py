"""Secrets leave text, environments, arguments and JSON before anything is hashed; ordinary logs stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.evidence.redaction import (
    MARK,
    LineRedactor,
    redact_argv,
    redact_env,
    redact_json,
    redact_stream,
    redact_text,
)
from tests.support.secret_texts import HF, PEM, PEM_BODY, TAKEN

LOGS = Path(__file__).parent.parent / "logs"


@pytest.mark.parametrize(("text", "secret"), TAKEN)
def test_a_secret_is_taken_out_and_counted(text: str, secret: str) -> None:
    done = redact_text(text)
    assert secret not in done.text
    assert MARK in done.text
    assert done.count >= 1


@pytest.mark.parametrize(("text", "secret"), TAKEN)
def test_redacting_twice_is_redacting_once(text: str, secret: str) -> None:
    once = redact_text(text).text
    assert redact_text(once) == type(redact_text(once))(once, 0)


LEFT = [
    "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE=163840",
    "VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD=256",
    "--max-num-batched-tokens 8192 --max-model-len 131072",
    "'max_num_batched_tokens': 8192, 'tokenizer_mode': 'auto', 'skip_tokenizer_init': False",
    "max_tokens=16, min_tokens=0, stop_token_ids=[163586], skip_special_tokens=True",
    "eos_token='<|im_end|>' bos_token='[BOS]' pad_token=[PAD] pad_token_id=163839",
    "TOKENIZERS_PARALLELISM=false",
    "--tokenizer /models/kimi-k3 --enable-auto-tool-choice --tool-call-parser kimi_k2",
    "hf_token=None, api_key=None",
    "'hf_token': None, 'api_key': None, 'hf_overrides': {}",
    "Avg prompt throughput: 1024.0 tokens/s, Avg generation throughput: 33.1 tokens/s",
    "git commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "vLLM API server version 0.11.1rc2.dev17+g3f786850e",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "Added request cmpl-6f1d2c3b4a5968778695a4b3c2d1e0f9-0.",
    "request_id=chatcmpl-6f1d2c3b4a5968778695a4b3c2d1e0f9",
    "GPU-5f2a7c1e-0d3b-4c8e-9f10-1a2b3c4d5e6f",
    "KeyError: 'model.layers.0.self_attn.q_proj.weight'",
    "key_cache, value_cache = kv_cache.unbind(0)",
    "cache_key: 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "public_key=MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
    "tcp://10.0.0.7:29500 world_size=16",
    "http://[::1]:8000/v1/completions http://localhost:8000/health",
    "git clone ssh://git@github.com/vllm-project/vllm",
    "mail oncall@example.com about gpu-a1",
    "docker run -u 1000:1000 -p 8000:8000 image",
    "uses basic authentication and bearer tokens over HTTP",
    "Unexpected token: '}' at position 12",
    "token=token, hf_token=self.hf_token, api_key=args.api_key",
    "    password: str | None = None",
    "HF_TOKEN=${node:HF_TOKEN}",
    "HF_TOKEN=$HF_TOKEN",
    "--api-key ${VLLM_API_KEY}",
    "HF_TOKEN=",
    "HF_TOKEN=***",
    "-----BEGIN CERTIFICATE-----",
    "NCCL_SOCKET_IFNAME=bond0 NCCL_IB_HCA=mlx5 PYTHONHASHSEED=0",
    "CUDA_VISIBLE_DEVICES=0,1,2,3 LD_LIBRARY_PATH=/usr/local/cuda/compat",
    "DeepseekV3ForCausalLM task-sk-0123456789",
    "[Errno 98] error while attempting to bind on address ('0.0.0.0', 8000)",
    "num_prompt_tokens: 12 prompt_token_ids: None, draft_token: 4242",
    "OLDPWD=/root PWD=/root",
]


@pytest.mark.parametrize("text", LEFT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact_text(text) == type(redact_text(text))(text, 0)


def test_ordinary_logs_lose_nothing() -> None:
    found = [
        f"{path.name}:{number}: {line!r}"
        for path in sorted(LOGS.rglob("*"))
        if path.is_file()
        for number, (line, count) in enumerate(redact_stream(path.read_bytes().splitlines(keepends=True)), 1)
        if count
    ]
    assert found == []


def test_line_numbers_and_line_ends_stay() -> None:
    text = f"one\r\n{PEM}two\nHF_TOKEN={HF}\r\nlast"
    done = redact_text(text)
    assert done.text.count("\n") == text.count("\n")
    assert done.text.startswith("one\r\n")
    assert done.text.endswith(f"two\nHF_TOKEN={MARK}\r\nlast")
    assert done.count == 2


def test_a_stream_comes_out_as_the_text_would() -> None:
    text = f"INFO start\n{PEM}INFO api_key='letmein'\nno end"
    streamed = list(redact_stream(text.encode().splitlines(keepends=True)))
    assert b"".join(line for line, _ in streamed).decode() == redact_text(text).text
    assert sum(count for _, count in streamed) == redact_text(text).count == 2


def test_a_stream_of_blocks_comes_out_as_its_lines_would() -> None:
    noise = "INFO Avg prompt throughput: 4.1 tokens/s, Running: 3 reqs\nplain\n"
    text = noise.join(
        [f"{PEM}", "INFO api_key='letmein'\n", f"9 tokens/s, HF_TOKEN={HF}\r\n", f"{PEM}", "\udcff no end"]
    )
    data = text.encode("utf-8", "surrogateescape")
    by_line = list(redact_stream(data.splitlines(keepends=True)))
    for cut in range(0, len(data), 97):
        at = data.rfind(b"\n", 0, cut) + 1
        by_block = list(redact_stream([data[:at], data[at:]]))
        assert b"".join(block for block, _ in by_block) == b"".join(line for line, _ in by_line)
        assert sum(count for _, count in by_block) == sum(count for _, count in by_line) == 4


def test_a_private_key_that_was_cut_takes_no_further_line_with_it() -> None:
    done = redact_text(f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\nERROR the root line\nnext {HF}\n")
    assert done.text == f"{MARK}\n{MARK}\nERROR the root line\nnext {MARK}\n"


def test_one_short_line_may_end_a_cut_private_key_and_no_more() -> None:
    done = redact_text(f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\nMzEfYyji==\nready\n")
    assert done.text == f"{MARK}\n{MARK}\n{MARK}\nready\n"


def test_a_private_key_with_headers_and_log_prefix_is_taken_out() -> None:
    text = (
        "(EngineCore pid=7) -----BEGIN RSA PRIVATE KEY-----\n"
        "Proc-Type: 4,ENCRYPTED\n\n"
        f"(EngineCore pid=7) {PEM_BODY}\nZm9v\n-----END RSA PRIVATE KEY----- then {HF}\n"
    )
    done = redact_text(text)
    assert PEM_BODY not in done.text
    assert "Zm9v" not in done.text
    assert HF not in done.text
    assert done.text.endswith(f"{MARK} then {MARK}\n")


def test_a_private_key_without_end_does_not_take_a_whole_log() -> None:
    redactor = LineRedactor()
    redactor.line("-----BEGIN PRIVATE KEY-----\n")
    kept = [redactor.line(PEM_BODY + "\n").text for _ in range(2000)]
    assert kept[-1] != MARK + "\n"


def test_bytes_that_are_no_utf8_survive_beside_a_secret() -> None:
    [(line, count)] = redact_stream([b"\xff\xfe HF_TOKEN=letmein1 \x00\n"])
    assert (line, count) == (b"\xff\xfe HF_TOKEN=[redacted] \x00\n", 1)


def test_an_environment_loses_secret_values_and_keeps_its_names() -> None:
    env = {"HF_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "y", "HTTP_PROXY": "http://a:b@p:1", "VLLM_USE_V1": "1"}
    env |= {"VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE": "163840", "EMPTY_TOKEN": "", "REF_TOKEN": "${node:HF_TOKEN}"}
    cleaned, count = redact_env(env)
    assert count == 3
    assert cleaned == env | {
        "HF_TOKEN": MARK,
        "AWS_SECRET_ACCESS_KEY": MARK,
        "HTTP_PROXY": f"http://{MARK}@p:1",
    }


@pytest.mark.parametrize(
    ("argv", "expected", "count"),
    [
        (["--api-key", "a", "b", "--port", "1"], ["--api-key", MARK, MARK, "--port", "1"], 2),
        (["--api-key=a"], [f"--api-key={MARK}"], 1),
        (["--api-key", "--port", "1"], ["--api-key", "--port", "1"], 0),
        (["--api-key", "${node:VLLM_API_KEY}"], ["--api-key", "${node:VLLM_API_KEY}"], 0),
        (["-e", "HF_TOKEN=a"], ["-e", f"HF_TOKEN={MARK}"], 1),
        (['{"hf_token":"a"}'], [f'{{"hf_token":"{MARK}"}}'], 1),
        (["--max-num-batched-tokens", "8192"], ["--max-num-batched-tokens", "8192"], 0),
        (["--host", "redis://:pw@h"], ["--host", f"redis://{MARK}@h"], 1),
    ],
)
def test_arguments_lose_their_secrets(argv: list[str], expected: list[str], count: int) -> None:
    assert redact_argv(argv) == (tuple(expected), count)


def test_json_is_redacted_by_key_and_by_shape_and_keeps_its_form() -> None:
    value = {
        "env": {"HF_TOKEN": "x", "N": 8, "on": True, "none": None},
        "argv": ["--api-key", "y"],
        "api_keys": ["z"],
        "api_key": ["p", "q"],
        "mixed": [1, {"password": "w"}, f"see {HF}"],
    }
    cleaned, count = redact_json(value)
    assert cleaned == {
        "env": {"HF_TOKEN": MARK, "N": 8, "on": True, "none": None},
        "argv": ["--api-key", MARK],
        "api_keys": [MARK],
        "api_key": [MARK, MARK],
        "mixed": [1, {"password": MARK}, f"see {MARK}"],
    }
    assert count == 7
    assert redact_json(cleaned) == (cleaned, 0)


@given(st.text(max_size=300))
def test_any_text_is_taken_and_a_second_pass_finds_nothing(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once.text).text == once.text
    assert once.text.count("\n") == text.count("\n")


_PIECES = st.sampled_from([*(t.values[0] for t in TAKEN), *LEFT, "=", ":", '"', "'", " ", "\\", "--", "://", "@", "\n"])


@given(st.lists(_PIECES, max_size=8).map("".join))
def test_secrets_run_together_are_found_in_one_pass(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once.text).text == once.text
