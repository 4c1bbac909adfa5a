"""The engine's `/metrics` as the counters a probe needs, in the names of all versions since 0.27 and the older ones in blocks."""

from __future__ import annotations

from collections import defaultdict

from prometheus_client.parser import text_string_to_metric_families

from playbooks.judging.cache_facts import Scrape

_LONGEST = 8 << 20
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits")
_OLD_QUERIES = ("vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries")
_OLD_HITS = ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits")
_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")


def read_metrics(text: str) -> tuple[Scrape, dict[str, str]] | None:
    """Read a scrape and the labels of the cache's configuration; None when it is no metrics text.

    A counter is the sum over its engines; `_created` twins are times and are never summed.
    """
    sums: dict[str, float] = defaultdict(float)
    engines: set[str] = set()
    config: dict[str, str] = {}
    try:
        for family in text_string_to_metric_families(text[:_LONGEST]):
            for sample in family.samples:
                sums[sample.name] += sample.value
                if sample.name in {*_QUERIES, *_OLD_QUERIES, "vllm:num_requests_running"} and "engine" in sample.labels:
                    engines.add(sample.labels["engine"])
                if sample.name == "vllm:cache_config_info":
                    config = dict(sample.labels)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):  # what the parser makes of text that is none
        return None
    if not sums:
        return None

    def whole(*names: str, scale: int = 1) -> int | None:
        found = next((name for name in names if name in sums), None)
        if found is None or sums[found] != sums[found] or abs(sums[found]) > 2**52:
            return None
        return round(sums[found] * scale)

    old = not any(name in sums for name in _QUERIES) and any(name in sums for name in _OLD_QUERIES)
    scrape = Scrape(
        queries=whole(*(_OLD_QUERIES if old else _QUERIES)),
        hits=whole(*(_OLD_HITS if old else _HITS)),
        in_blocks=old,
        cached=whole("vllm:prompt_tokens_cached_total"),
        computed=whole("vllm:prompt_tokens_total"),
        preemptions=whole("vllm:num_preemptions_total", "vllm:num_preemptions"),
        running=whole("vllm:num_requests_running"),
        waiting=whole("vllm:num_requests_waiting"),
        kv_permille=whole(*_USAGE, scale=1000),
        drafts=whole("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts"),
        accepted=whole("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens"),
        started_ms=whole("process_start_time_seconds", scale=1000),
        engines=len(engines),
    )
    return scrape, config
