"""Texts that hold a secret, each with the secret: what no log, store, file or message may show."""

from __future__ import annotations

import base64
import json

import pytest

# Put together at run time, so that no scanner takes this file for a leak.
HF = "hf" + "_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"
HF_LETTERS = "hf" + "_aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"
SK = "sk" + "-proj-0123456789abcdefABCDEF"
XOXB = "xox" + "b-1234567890-0987654321-AbCdEfGhIjKl"
XAPP = "xapp" + "-1-A0123456789-9876543210-0a1b2c3d4e5f"
AKIA = "AKIA" + "IOSFODNN7EXAMPLE"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
GH = "gh" + "p_0123456789abcdefghijABCDEFGHIJ0123"
BASIC = base64.b64encode(b"alice:s3cr3t-pass").decode()
PEM_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
PEM = f"-----BEGIN PRIVATE KEY-----\n{PEM_BODY}\n{PEM_BODY}\nMzEfYyjiWA4R4w==\n-----END PRIVATE KEY-----\n"
HOOK = "https://hooks.slack.com/services/" + "T00000000/B00000000/XXXXyyyyZZZZ0000aaaa"

TAKEN = [
    pytest.param(f"HF_TOKEN={HF}", HF, id="Hugging Face token in an assignment"),
    pytest.param(f"using {HF} now", HF, id="Hugging Face token by its shape"),
    pytest.param(f"using {HF_LETTERS} now", HF_LETTERS, id="Hugging Face token of letters only"),
    pytest.param("export HF_TOKEN='hunter two'", "hunter two", id="quoted value with a space"),
    pytest.param("HUGGING_FACE_HUB_TOKEN=plainword", "plainword", id="hub token that has no shape"),
    pytest.param("docker run -e VLLM_API_KEY=letmein vllm", "letmein", id="docker -e"),
    pytest.param("docker run --env=VLLM_API_KEY=letmein vllm", "letmein", id="docker --env="),
    pytest.param(f"OPENAI_API_KEY: {SK}", SK, id="OpenAI key in YAML"),
    pytest.param(f"key was {SK}.", SK, id="OpenAI key by its shape"),
    pytest.param(
        "vllm serve m --api-key sk-secret123 --port 8000", "sk-secret123", id="key that looks like a name: sk-secret123"
    ),
    pytest.param("HF_TOKEN=sk-secret123 vllm serve m", "sk-secret123", id="token that looks like a name: sk-secret123"),
    pytest.param(
        "vllm serve m --api-key sk-local-key --port 8000", "sk-local-key", id="key that looks like a name: sk-local-key"
    ),
    pytest.param("HF_TOKEN=sk-local-key vllm serve m", "sk-local-key", id="token that looks like a name: sk-local-key"),
    pytest.param(
        "vllm serve m --api-key my-api-key --port 8000", "my-api-key", id="key that looks like a name: my-api-key"
    ),
    pytest.param("HF_TOKEN=my-api-key vllm serve m", "my-api-key", id="token that looks like a name: my-api-key"),
    pytest.param(
        "vllm serve m --api-key token-abc123XYZ --port 8000",
        "token-abc123XYZ",
        id="key that looks like a name: token-abc123XYZ",
    ),
    pytest.param(
        "HF_TOKEN=token-abc123XYZ vllm serve m", "token-abc123XYZ", id="token that looks like a name: token-abc123XYZ"
    ),
    pytest.param(
        "vllm serve m --api-key self-hosted-key1 --port 8000",
        "self-hosted-key1",
        id="key that looks like a name: self-hosted-key1",
    ),
    pytest.param(
        "HF_TOKEN=self-hosted-key1 vllm serve m",
        "self-hosted-key1",
        id="token that looks like a name: self-hosted-key1",
    ),
    pytest.param(
        "vllm serve m --api-key config-9f3a --port 8000", "config-9f3a", id="key that looks like a name: config-9f3a"
    ),
    pytest.param("HF_TOKEN=config-9f3a vllm serve m", "config-9f3a", id="token that looks like a name: config-9f3a"),
    pytest.param(
        "vllm serve m --api-key os-token-11 --port 8000", "os-token-11", id="key that looks like a name: os-token-11"
    ),
    pytest.param("HF_TOKEN=os-token-11 vllm serve m", "os-token-11", id="token that looks like a name: os-token-11"),
    pytest.param(
        "vllm serve m --api-key Pa55.word --port 8000", "Pa55.word", id="key that looks like a name: Pa55.word"
    ),
    pytest.param("HF_TOKEN=Pa55.word vllm serve m", "Pa55.word", id="token that looks like a name: Pa55.word"),
    pytest.param(
        "vllm serve m --api-key my.prod.key --port 8000", "my.prod.key", id="key that looks like a name: my.prod.key"
    ),
    pytest.param("HF_TOKEN=my.prod.key vllm serve m", "my.prod.key", id="token that looks like a name: my.prod.key"),
    pytest.param("vllm serve m --api-key tok-a tok-b", "tok-b", id="second of several keys"),
    pytest.param("HF_TOKEN=a1&b(c)d vllm serve m", "(c)d", id="signs inside a variable"),
    pytest.param("HF_TOKEN=a1&b(c)d vllm serve m", "&b", id="a sign of the shell inside a variable"),
    pytest.param("vllm serve m --api-key letmein --port 8000", "letmein", id="flag and value"),
    pytest.param("vllm serve m --api-key=letmein", "letmein", id="flag with an equals sign"),
    pytest.param('vllm serve m --api-key "two words"', "two words", id="flag and quoted value"),
    pytest.param("['vllm', 'serve', '--api-key', 'letmein']", "letmein", id="printed Python argument list"),
    pytest.param('["--hf-token", "letmein"]', "letmein", id="JSON argument list"),
    pytest.param("--hf-token letmein", "letmein", id="hf token flag"),
    pytest.param('{"hf_token": "letmein"}', "letmein", id="JSON key"),
    pytest.param('{"hf_token":"let me in"}', "let me in", id="JSON key without a space"),
    pytest.param("{'hf_token': 'letmein'}", "letmein", id="printed Python dict"),
    pytest.param(r"--config '{\"hf_token\": \"letmein1\"}'", "letmein1", id="escaped JSON in an argument"),
    pytest.param(
        "non-default args: {'api_key': ['letmein', 'other']}", "letmein", id="list of keys in vLLM's own line"
    ),
    pytest.param("Namespace(api_key='letmein', port=8000)", "letmein", id="printed namespace"),
    pytest.param("Authorization: Bearer abcdefgh", "abcdefgh", id="bearer header"),
    pytest.param("authorization: bearer abcdefgh", "abcdefgh", id="bearer header in lower case"),
    pytest.param("curl -H 'Authorization: Bearer letmein' http://x/v1", "letmein", id="bearer header of curl"),
    pytest.param('"authorization": "Bearer letmein"', "letmein", id="bearer header in JSON"),
    pytest.param("b'authorization', b'Bearer letmein1'", "letmein1", id="raw header pair"),
    pytest.param("Proxy-Authorization: Basic " + BASIC, BASIC, id="proxy header"),
    pytest.param("Authorization: letmein", "letmein", id="header without a scheme"),
    pytest.param(
        f"Authorization: AWS4-HMAC-SHA256 Credential={AKIA}/20261201, Signature=fe5f80", "fe5f80", id="AWS header"
    ),
    pytest.param(f"sent Basic {BASIC} along", BASIC, id="basic credentials by their shape"),
    pytest.param(f"got bearer {GH[4:]}", GH[4:], id="bearer without a header"),
    pytest.param("X-Api-Key: letmein", "letmein", id="API key header"),
    pytest.param("Cookie: session=abc; theme=dark", "abc; theme", id="cookie header"),
    pytest.param("Set-Cookie: sid=abc123; HttpOnly", "abc123", id="set-cookie header"),
    pytest.param(f"SLACK_BOT_TOKEN={XOXB}", XOXB, id="Slack bot token"),
    pytest.param(f"connecting with {XAPP}", XAPP, id="Slack app token by its shape"),
    pytest.param(f"post to {HOOK}", "XXXXyyyyZZZZ0000aaaa", id="Slack webhook"),
    pytest.param("SLACK_SIGNING_SECRET=8f742231b10e8888abcd99yyyzzz85a5", "8f742231", id="Slack signing secret"),
    pytest.param(f"aws_access_key_id = {AKIA}", AKIA, id="AWS key id"),
    pytest.param(f"found {AKIA} in env", AKIA, id="AWS key id by its shape"),
    pytest.param(f"aws_secret_access_key={AWS_SECRET}", AWS_SECRET, id="AWS secret key"),
    pytest.param(f"S3_SECRET_ACCESS_KEY: '{AWS_SECRET}'", AWS_SECRET, id="S3 secret key in YAML"),
    pytest.param("S3_ACCESS_KEY_ID=minioadmin", "minioadmin", id="S3 key id that has no shape"),
    pytest.param("https://b.s3.amazonaws.com/w?X-Amz-Signature=0f1e2d3c&x=1", "0f1e2d3c", id="presigned URL"),
    pytest.param("https://cdn/x?Policy=eyAiU3RhdGVt&Signature=abcd~efg&Key-Pair-Id=K24J24Z", "abcd~efg", id="CDN URL"),
    pytest.param("GET /files?access_token=letmein HTTP/1.1", "letmein", id="token in a query"),
    pytest.param("redis://:p4ss@cache:6379/0", "p4ss", id="redis URL with a password"),
    pytest.param("rediss://user:p@ss@cache:6379/0", "p@ss", id="redis URL with an at sign in the password"),
    pytest.param("postgresql+psycopg://app:pw@db/app", "app:pw", id="database URL"),
    pytest.param("HTTPS_PROXY=http://joe:pw1@proxy:3128", "joe:pw1", id="proxy URL"),
    pytest.param(f"git clone https://{GH}@github.com/x/y", GH, id="token as user name of a URL"),
    pytest.param("amqp://guest:guest@mq//", "guest:guest", id="broker URL"),
    pytest.param(f"remote: {GH}", GH, id="GitHub token by its shape"),
    pytest.param("glpat" + "-0123456789abcdefXYZ", "0123456789abcdefXYZ", id="GitLab token"),
    pytest.param("NGC " + "nvapi" + "-0123456789abcdefXYZ_", "0123456789abcdefXYZ_", id="NVIDIA key"),
    pytest.param("AIza" + "SyA0123456789abcdefghijklmnopqrstuv", "SyA0123456789", id="Google key"),
    pytest.param(f"id {JWT} end", JWT, id="JSON web token"),
    pytest.param("password=hunter2", "hunter2", id="password"),
    pytest.param("db_password: 12345678", "12345678", id="password of digits"),
    pytest.param("POSTGRES_PASSWORD=x", "=x", id="password of one letter"),
    pytest.param("MYSQL_PWD=abc123", "abc123", id="pwd"),
    pytest.param("SSH_KEY_PASSPHRASE=correct", "correct", id="passphrase"),
    pytest.param("machine huggingface.co login me password pw77", "pw77", id="netrc"),
    pytest.param("sshpass -p pw77 ssh host", "pw77", id="sshpass"),
    pytest.param("docker login -u me -p pw77 registry", "pw77", id="docker login"),
    pytest.param("curl -u me:pw77 http://host", "pw77", id="curl -u"),
    pytest.param('"auths": {"r.io": {"auth": "' + BASIC + '"}}', BASIC, id="docker's config"),
    pytest.param("//registry/:_authToken=letmein", "letmein", id="npm registry"),
    pytest.param("client_secret=letmein", "letmein", id="client secret"),
    pytest.param("AZURE_CREDENTIAL=letmein", "letmein", id="credential"),
    pytest.param("MY_PRIVATE_KEY=letmein", "letmein", id="private key variable"),
    pytest.param("WANDB_API_KEY=0123456789abcdef", "0123456789abcdef", id="tracker's key"),
    pytest.param(PEM, PEM_BODY, id="private key over lines"),
    pytest.param(PEM.replace("PRIVATE", "OPENSSH PRIVATE"), "MzEfYyjiWA4R4w==", id="last line of a private key"),
    pytest.param(json.dumps('["--api-key", "letmein"]'), "letmein", id="arguments as JSON within JSON"),
    pytest.param(json.dumps(json.dumps('{"api_key": "letmein"}')), "letmein", id="JSON within JSON within JSON"),
    pytest.param("key: " + PEM.replace("\n", "\\n"), PEM_BODY, id="private key on one line"),
]
