"""The worker's commands: `baseline worker` and `baseline fingerprint`.

Exit codes: 0 fine, 1 the fingerprint found something that does not agree, 2 wrong use or settings, 3 could not find out.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from playbooks.errors import InputError
from workers.errors import InvalidNodeSettings, InvalidPolicy, JobError

EXIT_NEGATIVE = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3


def register(app: typer.Typer) -> None:
    """Hang the worker's commands on the root command."""
    app.command("worker")(worker)
    app.command("fingerprint")(fingerprint)
    app.command("watch")(watch)
    app.command("probe-cache")(probe_cache)
    app.command("probe-feature")(probe_feature)
    app.command("compare-prompts")(compare_prompts)


def worker(  # noqa: PLR0917 - options of a command
    node: Annotated[str, typer.Option("--node", help="Name of this node, as the bot knows it.")] = "",
    init_policy: Annotated[
        Path | None, typer.Option("--init-policy", help="Write a narrow policy file with comments, and end.")
    ] = None,
    allow_vllm: Annotated[
        list[Path] | None,
        typer.Option("--allow-vllm", help="For --init-policy: a `vllm` executable that may be started."),
    ] = None,
    allow_models: Annotated[
        list[Path] | None, typer.Option("--allow-models", help="For --init-policy: a folder that models may lie in.")
    ] = None,
    parent_pid: Annotated[
        int | None, typer.Option("--parent-pid", help="End, with all engines, when this process ends.")
    ] = None,
    stop_held: Annotated[
        bool, typer.Option("--stop-held", help="At the end also stop engines that are held for requests.")
    ] = False,
) -> None:
    """Run the worker of a GPU node: takes signed jobs from its two queues and reports facts.

    Settings: BASELINE_BOT_URL, BASELINE_BROKER_URL, BASELINE_NODE_KEY, BASELINE_NODE_POLICY, BASELINE_DATA_DIR.
    """
    if init_policy is not None:
        _init_policy(init_policy, allow_vllm or [], allow_models or [])
        return
    if not node:
        _fail("expected --node NAME, the name under which the bot knows this node")
    from workers.app import run_worker

    try:
        again = run_worker(node, parent=parent_pid, stop_held=stop_held)
    except (InvalidNodeSettings, InvalidPolicy) as error:
        _fail(str(error))
    if again:  # the same process with fresh memory: only one without threads may fork
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own command line


def fingerprint(  # noqa: PLR0917 - options of a command
    as_json: Annotated[bool, typer.Option("--json", help="Print all fields as one JSON object.")] = False,
    root: Annotated[
        Path, typer.Option("--root", help="Read /proc, /sys, /dev and package records below this folder.")
    ] = Path("/"),
    container: Annotated[
        str | None, typer.Option("--container", help="Also look into this running or dead container.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="Also look into this image, in a short-lived container.")
    ] = None,
    python: Annotated[str | None, typer.Option("--python", help="Also look into this interpreter.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Also describe this model folder.")] = None,
) -> None:
    """Read what is really loaded on this machine, and compare host and container.

    Needs no bot, no broker and no settings; changes nothing.
    """
    from playbooks.judging.consistency import compare
    from workers.jobs.fingerprint_table import table
    from workers.reading_here import read_local

    try:
        facts = read_local(root=root, container=container, image=image, python=python, model=model)
    except JobError as error:
        print(f"baseline: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNKNOWN) from error
    disagreements = compare(facts.host, facts.container)
    if as_json:
        print(
            json.dumps(
                facts.model_dump(mode="json") | {"disagreements": [asdict(one) for one in disagreements]}, indent=1
            )
        )
    else:
        print(table(facts, disagreements))
    if any(one.severity == "finding" for one in disagreements):
        raise typer.Exit(EXIT_NEGATIVE)


def watch(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-|COMMAND…", help="What to run and look on, behind `--`; - reads the log from a pipe."),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", help="Look on a container that is there already, running or dead.")
    ] = None,
    incident: Annotated[
        str, typer.Option("--incident", help="Case to send what was seen to, as a recorded attempt: INC-7.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; default: baseline-watch-TIME.log in this folder.")
    ] = None,
    playbook: Annotated[
        str, typer.Option("--playbook", help="Playbook whose stage limits are told when they pass.")
    ] = "kimi-k3",
) -> None:
    """Look on while a launch that others start runs: its stages, the first fatal line, the verdict when it falls.

    Stops nothing; limits are told. The log goes on to standard output, Baseline speaks on standard error. What was seen
    becomes one redacted file to drop into the case's thread, or is sent there (BASELINE_BOT_URL, BASELINE_NODE_KEY).

    Exit code: the command's own (128 + number for a signal); of a pipe or a container 1 when a failure was found, else 0.
    """
    from workers.watching import watch_and_hand_over

    try:
        raise typer.Exit(
            watch_and_hand_over(
                tuple(command or ()), container=container, incident=incident, out=out, playbook=playbook, say=_say
            )
        )
    except (JobError, InputError, InvalidNodeSettings) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename or 'file'}: {error.strerror or error}")


def probe_cache(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the engine answers: http://127.0.0.1:8000.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print verdict and requests as one JSON object.")] = False,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=4, help="How often the six requests are sent.")] = 2,
    timeout_s: Annotated[int, typer.Option("--timeout", min=1, max=3600, help="Seconds one request may take.")] = 120,
    key_variable: Annotated[
        str | None, typer.Option("--api-key-env", help="Environment variable that holds the endpoint's API key.")
    ] = None,
) -> None:
    """Prove whether the prefix cache of a running engine hits, by counters and answers, never by speed.

    Sends six requests a round of two to three blocks' length to the address you name, and reads its /metrics.

    Exit code 0 for hits, 1 for none (miss, only exact repeats, cache off), 3 when it cannot tell.
    """
    from playbooks.judging.prefix_cache import CacheVerdict, judge
    from workers.jobs.cache_table import in_words
    from workers.probing_here import probe_cache_here

    try:
        facts = probe_cache_here(url, rounds=rounds, timeout_s=timeout_s, key_variable=key_variable)
    except JobError as error:
        print(f"baseline: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNKNOWN) from error
    judged = judge(facts)
    if as_json:
        print(json.dumps(asdict(judged) | {"facts": facts.model_dump(mode="json")}, indent=1, ensure_ascii=False))
    else:
        print(in_words(facts, judged))
    if judged.verdict in {CacheVerdict.INCONCLUSIVE, CacheVerdict.CONTAMINATED}:
        raise typer.Exit(EXIT_UNKNOWN)
    if judged.verdict is not CacheVerdict.HIT:
        raise typer.Exit(EXIT_NEGATIVE)


def probe_feature(  # noqa: PLR0917 - options of a command
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the engine answers: http://127.0.0.1:8000.")],
    feature: Annotated[
        str,
        typer.Argument(help="tool_call, structured_output, reasoning, vision, long_context or speculative_decoding."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print verdict and tries as one JSON object.")] = False,
    tries: Annotated[int, typer.Option("--tries", min=1, max=50, help="How often it is tried.")] = 20,
    timeout_s: Annotated[int, typer.Option("--timeout", min=1, max=3600, help="Seconds one try may take.")] = 120,
    key_variable: Annotated[
        str | None, typer.Option("--api-key-env", help="Environment variable that holds the endpoint's API key.")
    ] = None,
) -> None:
    """Try one feature of a running engine and say how often it did what it promises, with the failures.

    Exit code 0 when it works, 1 when it fails or works only now and then, 3 when it is untested or cannot be told.
    """
    from playbooks.judging.feature_facts import FEATURES
    from playbooks.judging.feature_probe import FeatureVerdict, judge
    from workers.probing_here import probe_feature_here

    found = next((one for one in FEATURES if one == feature.replace("-", "_")), None)
    if found is None:
        _fail(f"expected one of {', '.join(FEATURES)}, found {feature[:60]!r}")
    try:
        facts = probe_feature_here(
            url, found, tries=tries, timeout_s=timeout_s, key_variable=key_variable, tell=_tell_progress
        )
    except JobError as error:
        print(f"baseline: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNKNOWN) from error
    judged = judge(facts)
    if as_json:
        print(json.dumps(asdict(judged) | {"facts": facts.model_dump(mode="json")}, indent=1, ensure_ascii=False))
    else:
        print(f"{found}: {judged.verdict} - {judged.grounds}")
        if judged.low is not None and judged.high is not None:
            print(f"95 % interval of the rate: {judged.low / 10:.0f}-{judged.high / 10:.0f} %")
        for kind, count in judged.failures.items():
            print(f"  {count}x {kind}")
        for one in judged.examples:
            print(f"  try {one['try']} ({one['how']}) {one['kind']}: {one['said'][:160]!r}")
        for remark in judged.remarks:
            print(remark)
    if judged.verdict in {FeatureVerdict.UNTESTED, FeatureVerdict.INCONCLUSIVE}:
        raise typer.Exit(EXIT_UNKNOWN)
    if judged.verdict is not FeatureVerdict.WORKS:
        raise typer.Exit(EXIT_NEGATIVE)


def compare_prompts(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the engine answers: http://127.0.0.1:8000.")],
    first: Annotated[Path, typer.Argument(help="JSON body of the first request: messages and tools, or a prompt.")],
    second: Annotated[Path, typer.Argument(help="JSON body of the second.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object.")] = False,
    key_variable: Annotated[
        str | None, typer.Option("--api-key-env", help="Environment variable that holds the endpoint's API key.")
    ] = None,
) -> None:
    """Say where two requests part, token by token, and how much of the second a prefix cache can reuse.

    A template, a tool's description or their order that changed per request is the usual reason of a miss; this shows it.
    Nothing is generated: the engine only tokenizes.

    Exit code 0 when something can hit, 1 when nothing can, 3 when it cannot tell.
    """
    from workers.probing_here import compare_prompts_here

    bodies = (_body_of(first), _body_of(second))
    try:
        diff, (before, here, there) = compare_prompts_here(url, bodies, key_variable=key_variable)
    except JobError as error:
        print(f"baseline: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNKNOWN) from error
    if as_json:
        shown = {"reusable": diff.reusable, "equal": diff.equal, "before": before, "first": here, "second": there}
        print(json.dumps(asdict(diff) | shown, ensure_ascii=False, indent=1))
    elif diff.equal:
        print(f"equal, {diff.common} tokens; {diff.verdict}")
    else:
        print(f"{diff.tokens_a} and {diff.tokens_b} tokens, alike up to token {diff.common}; {diff.verdict}")
        print(f"  alike  …{before!r}")
        print(f"  first  {here!r}")
        print(f"  second {there!r}")
    if diff.reusable is None:
        raise typer.Exit(EXIT_UNKNOWN)
    if not diff.reusable:
        raise typer.Exit(EXIT_NEGATIVE)


def _body_of(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        _fail(f"{path}: expected a JSON body of a request, found: {error}")
    if not isinstance(body, dict) or not {"messages", "prompt"} & body.keys():
        _fail(f"{path}: expected an object with `messages` or `prompt`")
    return body


def _tell_progress(note: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{note}\033[K", end="", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"baseline: {line}", file=sys.stderr, flush=True)


def _init_policy(path: Path, programs: list[Path], models: list[Path]) -> None:
    from workers.policy.file import template

    if path.exists():
        _fail(f"{path} is there already; expected a new file, so that no policy is overwritten")
    pairs = tuple((program.absolute().parent / "python", program.absolute()) for program in programs)
    path.write_text(
        template(interpreters=pairs, model_dirs=tuple(folder.absolute() for folder in models)), encoding="utf-8"
    )
    print(f"Wrote {path}. Read it, open what this node may start, then set BASELINE_NODE_POLICY={path}")


def _fail(message: str) -> NoReturn:
    print(f"baseline: {message}", file=sys.stderr)
    raise typer.Exit(EXIT_USAGE)
