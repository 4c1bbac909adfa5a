"""Keys and envelopes: whoever altered, swapped or merely copied a message is found."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playbooks.errors import BadSignature, InputError, MalformedMessage, NotCanonical, UnknownSchema
from playbooks.evidence.signing import Envelope, PublicKey, SigningKey, open_envelope, sign
from playbooks.messages import Claim, Heartbeat

KEY = SigningKey.from_text(base64.b64encode(bytes(range(32))).decode())
KEYS = {"node:gpu-a1": KEY.public}
AT = datetime(2026, 12, 1, 2, 41, tzinfo=UTC)
CLAIM = Claim(job_id="J1", node="gpu-a1", at=AT)
SIGNED = sign(CLAIM, KEY, "node:gpu-a1")
WIRE: dict[str, Any] = SIGNED.model_dump(mode="json")


def test_a_message_arrives_as_it_was_signed() -> None:
    assert open_envelope(SIGNED, KEYS, Claim) == CLAIM
    assert open_envelope(Envelope.model_validate_json(SIGNED.model_dump_json()), KEYS, Claim) == CLAIM
    assert open_envelope(WIRE, KEYS, Claim) == CLAIM


def test_the_envelope_on_the_wire_has_four_fields() -> None:
    assert sorted(WIRE) == ["body", "key_id", "schema", "signature"]
    assert WIRE["schema"] == 1
    assert WIRE["body"]["type"] == "claim"


def test_a_dict_is_signed_like_its_model() -> None:
    assert sign(CLAIM.model_dump(mode="json"), KEY, "node:gpu-a1") == SIGNED


def test_the_signature_is_pinned_so_that_other_programs_can_check_it() -> None:
    import rfc8785

    signed = rfc8785.dumps({name: WIRE[name] for name in ("schema", "key_id", "body")})
    assert KEY.public.is_signed(signed, base64.b64decode(SIGNED.signature))


def altered(**changes: Any) -> dict[str, Any]:
    return {**WIRE, **changes}


@pytest.mark.parametrize(
    ("wire", "error", "message"),
    [
        pytest.param(altered(body={**WIRE["body"], "job_id": "J2"}), BadSignature, "does not fit", id="altered body"),
        pytest.param(altered(body={**WIRE["body"], "extra": 1}), BadSignature, "does not fit", id="added field"),
        pytest.param(
            altered(key_id="bot"), BadSignature, "expected a key of node:gpu-a1, found key id 'bot'", id="other key id"
        ),
        pytest.param(altered(signature=""), BadSignature, "does not fit", id="no signature"),
        pytest.param(altered(signature="?"), BadSignature, "in base64", id="a signature in no base64"),
        pytest.param(altered(signature="é"), BadSignature, "in base64", id="a signature that is no ASCII"),
        pytest.param(altered(schema=2), UnknownSchema, "expected envelope schema 1, found 2", id="a newer schema"),
        pytest.param(altered(body={"type": "claim", "x": 1.5}), MalformedMessage, "float", id="a float in the body"),
        pytest.param(altered(body=[]), MalformedMessage, "expected an envelope .*body", id="a list as body"),
        pytest.param({}, MalformedMessage, "schema: Field required", id="an empty object"),
        pytest.param([], MalformedMessage, "expected an envelope", id="a list"),
        pytest.param("text", MalformedMessage, "expected an envelope", id="a text"),
        pytest.param(None, MalformedMessage, "expected an envelope", id="nothing"),
    ],
)
def test_what_is_not_as_it_was_signed_is_refused(wire: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_envelope(wire, KEYS, Claim)


def test_another_key_does_not_open() -> None:
    with pytest.raises(BadSignature, match="another key"):
        open_envelope(SIGNED, {"node:gpu-a1": SigningKey.generate().public}, Claim)
    with pytest.raises(BadSignature, match="expected a key of nobody"):
        open_envelope(SIGNED, {}, Claim)


def test_one_kind_of_message_cannot_be_passed_off_as_another() -> None:
    with pytest.raises(MalformedMessage, match="expected a heartbeat, found 'claim'"):
        open_envelope(SIGNED, KEYS, Heartbeat)


def test_a_body_of_the_right_kind_and_the_wrong_form_is_named_without_its_values() -> None:
    signed = sign({"type": "claim", "job_id": 7, "node": [], "at": "never"}, KEY, "node:gpu-a1")
    with pytest.raises(MalformedMessage, match=r"claim: job_id: .*; node: .*; at: ") as caught:
        open_envelope(signed, KEYS, Claim)
    assert "never" not in str(caught.value)
    with pytest.raises(MalformedMessage, match="and 1 more"):
        open_envelope({"signature": 1}, KEYS, Claim)


def test_fields_of_a_newer_sender_are_passed_over() -> None:
    signed = sign({**CLAIM.model_dump(mode="json"), "colour": "red"}, KEY, "node:gpu-a1")
    assert open_envelope(signed, KEYS, Claim) == CLAIM


def test_only_what_says_its_kind_is_signed() -> None:
    with pytest.raises(MalformedMessage, match="`type`"):
        sign({"job_id": "J1"}, KEY, "bot")
    with pytest.raises(NotCanonical, match="float"):
        sign({"type": "claim", "x": 0.5}, KEY, "bot")


def test_keys_go_through_text() -> None:
    key = SigningKey.generate()
    again = SigningKey.from_text(f" {key.to_text()}\n")
    assert again.public_text == key.public_text
    assert PublicKey.from_text(key.public_text).to_text() == key.public.to_text()
    assert key.to_text() not in repr(key)
    assert key.public_text in repr(key)


@pytest.mark.parametrize("text", ["", "secret!", "AAAA", base64.b64encode(bytes(33)).decode(), "é" * 44])
def test_a_text_that_is_no_key_is_refused_and_not_repeated(text: str) -> None:
    for kind in (SigningKey, PublicKey):
        with pytest.raises(InputError, match="base64 of 32 bytes") as caught:
            kind.from_text(text)
        assert not text or text not in str(caught.value)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_a_signature_fits_its_bytes_alone(data: bytes, other: bytes) -> None:
    signature = KEY.sign(data)
    assert KEY.public.is_signed(data, signature)
    assert KEY.public.is_signed(other, signature) is (other == data)
    assert not KEY.public.is_signed(data, other)
