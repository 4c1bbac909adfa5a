"""The catalogue as it ships: every entry is recognised as itself, none is out of reach, and its form is checked with file and line."""

from __future__ import annotations

import re

import pytest

from playbooks.catalog import load_catalogue
from playbooks.errors import InvalidDefinition
from playbooks.judging.candidates import GPU_OOM
from playbooks.judging.literals import required
from playbooks.judging.matching import Matcher
from playbooks.judging.signature_catalogue import Pattern, Signature, parse
from playbooks.vocabulary import ErrorClass

CATALOGUE = load_catalogue()
PATTERNS = (
    *CATALOGUE.signatures,
    *CATALOGUE.derived,
    *CATALOGUE.benign,
    *CATALOGUE.markers,
    *CATALOGUE.frames,
)
SAMPLES = [(entry, sample) for entry in PATTERNS for sample in entry.samples]
WITHOUT_SIGNATURE = {
    ErrorClass.NONE: "a success",
    ErrorClass.UNKNOWN: "no honest answer",
    ErrorClass.OOM_RUNTIME: "an out-of-memory line is named for the stage it happened in (candidates.oom_of)",
    ErrorClass.OOM_ENGINE_INIT: "likewise",
    ErrorClass.PREFIX_CACHE_BELOW_UNIT: "judged from unit, lengths and counters (cache_evidence)",
    ErrorClass.PREFIX_COUNTER_UNRELIABLE: "judged from answers and counters (cache_evidence)",
    ErrorClass.PREFIX_CACHE_BOUNDARY_MISS: "judged from a row of probes of several lengths; one log cannot tell it",
}


def named(entry: Pattern) -> str:
    return entry.id


@pytest.mark.parametrize(("entry", "sample"), SAMPLES, ids=[f"{entry.id}-{n}" for n, (entry, _) in enumerate(SAMPLES)])
def test_a_sample_is_matched_by_its_own_pattern_and_holds_one_of_its_literals(entry: Pattern, sample: str) -> None:
    assert entry.pattern.search(sample)
    assert any(literal in sample.lower() for literal in entry.literals)


@pytest.mark.parametrize("entry", [e for e in PATTERNS if e not in CATALOGUE.frames], ids=named)
def test_every_entry_brings_a_sample_and_a_source(entry: Pattern) -> None:
    assert entry.samples
    assert entry.source
    assert entry.seen_in


@pytest.mark.parametrize("entry", PATTERNS, ids=named)
def test_every_entry_is_found_by_literals_and_never_asked_on_each_line(entry: Pattern) -> None:
    assert entry.literals
    assert all(len(literal) >= 3 for literal in entry.literals)


@pytest.mark.parametrize("entry", CATALOGUE.signatures, ids=named)
def test_the_whole_catalogue_classes_a_sample_as_its_own_signature_does(entry: Signature) -> None:
    for sample in entry.samples:
        for kind in sorted(entry.where) or [""]:
            found = Matcher.of(CATALOGUE).match(sample, kind)
            assert found.benign is None, f"{entry.id} is hidden by benign {found.benign}"
            assert found.signature is not None
            same = found.signature.error_class is entry.error_class or {
                found.signature.error_class,
                entry.error_class,
            } <= set(GPU_OOM)
            assert same, f"{sample!r} of {entry.id} is taken by {found.signature.id}"


@pytest.mark.parametrize("entry", CATALOGUE.derived, ids=named)
def test_a_wrapper_line_is_no_signature(entry: Pattern) -> None:
    for sample in entry.samples:
        found = Matcher.of(CATALOGUE).match(sample)
        assert (found.benign, found.signature) == (None, None)
        assert found.derived is entry


@pytest.mark.parametrize("entry", CATALOGUE.benign, ids=named)
def test_a_benign_sample_is_benign_for_the_whole_catalogue(entry: Pattern) -> None:
    for sample in entry.samples:
        assert Matcher.of(CATALOGUE).match(sample).benign is not None


QUOTES_AN_ERROR = {"ulimit-quote"}
"""Benign lines that hold the words of a real failure; everything else must not even look like one."""


@pytest.mark.parametrize("entry", [e for e in CATALOGUE.benign if e.id not in QUOTES_AN_ERROR], ids=named)
def test_no_signature_matches_a_benign_sample(entry: Pattern) -> None:
    for sample in entry.samples:
        assert [s.id for s in CATALOGUE.signatures if s.pattern.search(sample)] == []


@pytest.mark.parametrize("klass", list(ErrorClass), ids=lambda klass: klass.value)
def test_every_class_can_be_told_or_says_why_not(klass: ErrorClass) -> None:
    told = {entry.error_class for entry in (*CATALOGUE.signatures, *CATALOGUE.derived)}
    assert (klass in told) or klass in WITHOUT_SIGNATURE


@pytest.mark.parametrize("klass", sorted(set(ErrorClass) - {ErrorClass.NONE, ErrorClass.UNKNOWN}))
def test_every_class_has_a_meaning_an_action_and_a_next_check(klass: ErrorClass) -> None:
    info = CATALOGUE.classes[klass]
    assert info.meaning
    assert info.next_check
    assert info.points_to


def test_a_signature_only_explains_classes_that_can_follow() -> None:
    for entry in CATALOGUE.signatures:
        assert entry.error_class not in entry.explains or entry.stage is not None, entry.id


def test_the_digest_follows_the_content_not_its_layout() -> None:
    assert re.fullmatch("[0-9a-f]{64}", CATALOGUE.digest)
    plain = parse({"a.yaml": HEAD + ENTRY, "c.yaml": CLASSES})
    spaced = parse({"a.yaml": "# a remark\n" + HEAD + ENTRY, "c.yaml": CLASSES})
    other = parse({"a.yaml": HEAD + ENTRY.replace("boom", "bang"), "c.yaml": CLASSES})
    assert plain.digest == spaced.digest
    assert plain.digest != other.digest


CLASSES = """schema: baseline-classes/1
classes:
- id: disk_full
  family: files_hub
  stage: weight_loading
  other_stages: [container_init]
  meaning: full
  can_be_symptom: false
  points_to: fix_capacity
  next_check: df
"""
HEAD = "schema: baseline-signatures/1\nsource: here\nseen_in: now\nsignatures:\n"
ENTRY = "- id: one\n  error_class: disk_full\n  pattern: 'boom'\n  sample: boom\n"
REFUSED = {
    "no YAML": ("schema: [", r"a\.yaml:\d+: no YAML"),
    "an unknown schema": ("schema: other/1\n", r"a\.yaml:1: expected schema .*found str 'other/1'"),
    "a text": ("just words", r"a\.yaml:1: expected schema .*found str 'just words'"),
    "nothing": ("", r"a\.yaml:1: expected schema .*found nothing"),
    "no list": ("schema: baseline-signatures/1\nsignatures: 3\n", r"a\.yaml:1: expected a list under 'signatures'"),
    "an entry that is a word": (HEAD + "- one\n", r"a\.yaml: entry 1 of 'signatures': expected a mapping"),
    "a key nobody reads": (HEAD + ENTRY + "  colour: red\n", r"a\.yaml:5: expected keys .*found colour"),
    "no pattern": (HEAD + "- id: one\n  error_class: disk_full\n", r"a\.yaml:5: expected a text under 'pattern', found nothing"),
    "an empty pattern": (HEAD + ENTRY.replace("'boom'", "''"), r"a\.yaml:5: expected a text under 'pattern'"),
    "a broken pattern": (HEAD + ENTRY.replace("'boom'", "'('"), r"a\.yaml:5: pattern is no regular expression"),
    "an unknown class": (HEAD + ENTRY.replace("disk_full", "disk_fun"), r"a\.yaml:5: expected a ErrorClass .*disk_fun"),
    "a class without entry": (HEAD + ENTRY.replace("disk_full", "hub_auth"), r"a\.yaml:5: error_class .*hub_auth.* has no entry"),
    "an unknown stage": (HEAD + ENTRY + "  stage: launch\n", r"a\.yaml:5: expected a Stage .*launch"),
    "an unknown level": (HEAD + ENTRY + "  level: loud\n", r"a\.yaml:5: expected one of error, warning, info"),
    "a flag that is a word": (HEAD + ENTRY + "  generic: often\n", r"a\.yaml:5: expected true or false under 'generic'"),
    "a number below one": (HEAD + ENTRY + "  repeats: 0\n", r"a\.yaml:5: expected a whole number from 1"),
    "a true number": (HEAD + ENTRY + "  repeats: true\n", r"a\.yaml:5: expected a whole number from 1"),
    "explains something unknown": (HEAD + ENTRY + "  explains: [nothing]\n", r"a\.yaml:5: expected ErrorClasss? under 'explains'"),
    "samples that are numbers": (HEAD + ENTRY.replace("sample: boom", "sample: [1]"), r"a\.yaml:5: expected a text or a list"),
    "two of one id": (HEAD + ENTRY + ENTRY, r"a\.yaml:9: id 'one' is taken by a\.yaml:5"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_a_broken_definition_is_refused_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        parse({"a.yaml": text, "c.yaml": CLASSES})


NEEDED = {
    "one run": ("out of memory", ("out of memory",)),
    "the longest run": (r"Error \d+: unknown error", (": unknown error",)),
    "each branch": ("hello|goodbye", ("hello", "goodbye")),
    "a group in place of nothing longer": (r"(?:alpha|omega)\d", ("alpha", "omega")),
    "a group with flags": ("(?i:MemLock)", ("memlock",)),
    "flags of the whole": ("(?i)Memory", ("memory",)),
    "a branch too short": ("abc|hello", ()),
    "optional parts are not needed": ("(?:hello)?x{0,3}y*z?", ()),
    "a repeated character ends a run": ("hello+world", ("hello",)),
    "a repeat from two on is needed": ("(?:hello){2,3}", ("hello",)),
    "a lazy repeat": ("abcdef.*?ghi", ("abcdef",)),
    "sets are no runs": ("[]abc]def[^]x]ghijk", ("ghijk",)),
    "a set with an escape": (r"[\]a]defgh", ("defgh",)),
    "escapes": (r"\[shut\.down\]", ("[shut.down]",)),
    "a tab": (r"ab\tcd", ("ab\tcd",)),
    "a look-ahead is not needed": ("(?!never)(?=always)abcd", ("abcd",)),
    "groups inside groups": ("(?:(?:left|right) hand)", ("left hand", "right hand")),
    "a group is spelled out": ("Error: (?:no|any) file", ("error: no file", "error: any file")),
    "too many texts are not spelled out": ("(?:a|b|c|d|e)(?:a|b|c|d|e)(?:a|b|c|d|e) behind", tuple(f"{one} behind" for one in "abcde")),
    "an everyday word is no help": ("Failed .* to mmap", (" to mmap",)),
    "an everyday word is better than none": ("Failed .* x", ("failed ",)),
    "a named group": ("(?P<what>hello)", ("hello",)),
}  # fmt: skip


@pytest.mark.parametrize(("pattern", "literals"), NEEDED.values(), ids=NEEDED)
def test_literals_are_what_a_pattern_cannot_do_without(pattern: str, literals: tuple[str, ...]) -> None:
    assert set(required(pattern)) == set(literals)
