"""Scrapes as versions write them (made from the names those versions have): sums over engines, twins left out, restarts seen."""

from __future__ import annotations

import pytest

from playbooks.judging.cache_facts import Scrape
from workers.adapters.engine_metrics import read_metrics

EARLY_V1 = """# TYPE vllm:gpu_prefix_cache_queries counter
vllm:gpu_prefix_cache_queries_total{model_name="k3"} 12.0
# TYPE vllm:gpu_prefix_cache_hits counter
vllm:gpu_prefix_cache_hits_total{model_name="k3"} 3.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="k3"} 0.25
vllm:num_requests_running{model_name="k3"} 1.0
"""
V27 = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="k3"} 2.0
vllm:num_requests_running{engine="1",model_name="k3"} 3.0
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="k3"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="k3"} 500.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="k3"} 1.7e+09
vllm:prefix_cache_queries_created{engine="1",model_name="k3"} 1.7e+09
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="k3"} 256.0
vllm:prefix_cache_hits_total{engine="1",model_name="k3"} 128.0
# TYPE vllm:prefix_cache_hits_created gauge
vllm:prefix_cache_hits_created{engine="0",model_name="k3"} 1.7e+09
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",enable_prefix_caching="True",engine="0",mamba_block_size="None"} 1.0
"""
V32 = """# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7961e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="k3"} 0.0
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0",model_name="k3"} 2560.0
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total{engine="0",model_name="k3"} 1280.0
# TYPE vllm:prompt_tokens_cached counter
vllm:prompt_tokens_cached_total{engine="0",model_name="k3"} 1280.0
# TYPE vllm:prompt_tokens_cached_by_source counter
vllm:prompt_tokens_cached_by_source_total{engine="0",source="device"} 1280.0
vllm:prompt_tokens_cached_by_source_total{engine="0",source="host"} 0.0
# TYPE vllm:external_prefix_cache_hits counter
vllm:external_prefix_cache_hits_total{engine="0"} 77.0
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{engine="0",model_name="k3"} 4.0
# TYPE vllm:request_num_preemptions histogram
vllm:request_num_preemptions_bucket{le="+Inf"} 9.0
vllm:request_num_preemptions_sum 4.0
vllm:request_num_preemptions_count 9.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="k3"} 0.5
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="k3"} 30.0
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="k3"} 45.0
"""


def scrape(text: str) -> Scrape:
    read = read_metrics(text)
    assert read is not None
    return read[0]


def test_counters_of_the_early_versions_are_in_blocks() -> None:
    found = scrape(EARLY_V1)
    assert (found.queries, found.hits, found.in_blocks, found.kv_permille) == (12, 3, True, 250)


def test_counters_are_sums_over_engines_and_the_times_of_their_making_are_none() -> None:
    found = scrape(V27)
    assert (found.queries, found.hits, found.in_blocks, found.engines, found.running) == (1500, 384, False, 2, 5)
    assert (found.drafts, found.accepted, found.cached, found.started_ms) == (None, None, None, None)


def test_labels_of_the_cache_configuration() -> None:
    read = read_metrics(V27)
    assert read is not None
    assert (read[1]["block_size"], read[1]["enable_prefix_caching"]) == ("128", "True")


def test_counters_of_0_32_are_told_from_their_neighbours() -> None:
    found = scrape(V32)
    assert (found.queries, found.hits, found.cached) == (2560, 1280, 1280), "hits of a connector are no hits of the GPU"
    assert (found.preemptions, found.kv_permille) == (4, 500)
    assert (found.drafts, found.accepted) == (30, 45)


def test_a_restart_between_two_scrapes_shows() -> None:
    before, after = scrape(V32), scrape(V32.replace("1.7961e+09", "1.7961005e+09"))
    assert before.started_ms is not None
    assert after.started_ms is not None
    assert after.started_ms - before.started_ms == 500_000


@pytest.mark.parametrize(
    "text", ["", "<html>502 Bad Gateway</html>", "vllm:prefix_cache_hits_total{engine=", "\x00\x01"]
)
def test_what_is_no_scrape_is_none(text: str) -> None:
    assert read_metrics(text) is None


def test_a_counter_without_a_number_is_not_there() -> None:
    assert scrape(V32.replace(" 2560.0", " NaN")).queries is None
