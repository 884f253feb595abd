"""Writes the inputs a fuzz target begins with: what the repository holds, and more where it is at hand.

Usage: seeds.py TARGET DIRECTORY

FUZZ_MATERIAL may name a directory of JSON files as GitHub sends them (webhook payloads, or answers with a `files` list);
they are read and never kept.
"""

import glob
import hashlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEPARATOR = "\n=====\n"
MOST = 60_000

ANSWERS = [
    '{"findings":[{"path":"a.rs","quote":"let a = 1;","line":1,"end_line":1,"side":"RIGHT","severity":"major",'
    '"category":"security","title":"Eats @bob","body":"See #1 and https://docs.rs/x.\\n\\n```rust\\nlet a;\\n```",'
    '"replacement":"let a = 2;","confidence":0.9}],"summary":"One line."}',
    'I looked.\n```json\n[{"file": "a.rs", "code": "x\\ny", "message": "bad", "severity": "HIGH", "confidence": "80%"}]\n```\nDone.',
    '<think>{"findings": [{"title": "no"}]}</think>{"findings": [], "summary": "Clean <!-- secondlook:finding 1 -->"}',
    '{"findings": [{"title": "cut in the mid',
    "\"{\\\"findings\\\": [{\\\"title\\\": \\\"in a string\\\"}]}\"",
    '{"hits":[{"rule":"python-eval","quote":"eval(x)","line":3,"end_line":3,"changed":true,"severity":"major",'
    '"category":"security","title":"t","why":"w","fix":"f","confidence":0.9}],"note":"","complete":true}',
]
VERDICTS = [
    '{"verdicts":[{"index":0,"verdict":"fix","reason":"line","confidence":0.8,"finding":{"quote":"let b = 2;",'
    '"title":"Other","severity":"nit"}}],"missed":[{"path":"a.rs","quote":"let b = 2;","title":"Missed","body":"m"}]}',
    '[{"index":"1","verdict":"drop","reason":"no"}]',
    '{"verdicts":[{"index":0,"verdict":"keep","confidence":"90%"}],"missed":null}',
]
COMMENTS = [
    "/secondlook review full",
    "@second-look[bot] why is `a/b.rs` wrong?\n\nIt says:\n> /secondlook pause",
    "```\n/secondlook pause\n```\n\n/secondlook ask what about <b>this</b> @alice #12 ![x](https://evil.example/a.png)",
    "<!-- /secondlook review -->\nthanks, @second-look",
    "| `a | @bob` |\n|-|-|\n- x\n  ~~~suggestion\n  code\n@bob [a]: https://evil.example www.evil.example GH-7",
    "postgres://app:hunter2@db/app Authorization: Bearer abcdef0123456789abcdef AKIAIOSFODNN7EXAMPLE\n"
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75d9hQ\n-----END RSA PRIVATE KEY-----\na@b.example +49 30 1234567",
    "/secondlook review `src/a.rs`\n    /secondlook ignore\n\\@second-look &#64;bob \u200b \u202e e\u0301",
]
SETTINGS = [
    'listen = "127.0.0.1:8080"\nmodel = "openai::gpt-5-mini"\nlog_format = "json"\npublic_url = "https://x.example"\n'
    '[github]\napp_id = 7\nprivate_key = "s3cr3t-v4lue"\nwebhook_secret = "s3cr3t-v4lue"\n[openai]\n'
    'api_key = "s3cr3t-v4lue"\nbase_url = "https://api.example/v1"\n[queue]\nworkers = 4\nlease_seconds = 60\n'
    "[review]\nmax_rounds = 3\ngroup_files = 4\ntokens = 1000000\n",
    'database_url = "postgres://u:s3cr3t-v4lue@h/d"\nmodel = "ollama::x"\nsmee = "https://smee.io/abc"\n',
    'listen = "localhost:x"\n[queue]\nworkers = 0\n',
]
POLICIES = [
    "review:\n  drafts: true\n  severity_floor: minor\n  max_comments: 12\n  fail_on: major\n  request_changes: critical\n"
    "  trigger: opened\npaths:\n  ignore: ['**/generated/**', '!src/*.pb.go', 'docs/']\n  instructions:\n"
    "    - path: 'src/**'\n      text: No panics.\nlanguage: German\ntone: dry\n",
    "review: {max_comments: 1000, unknown: [1, 2]}\npaths: {ignore: ['[', 3], instructions: x}\n",
    "a: &a [*a]\n? {b: c}\n: d\n--- \nx\n",
]
ATTRIBUTES = "*.rs text\ngen/** linguist-generated=true\n/vendor/* linguist-vendored -linguist-generated\n[attr]x y\n"


def material(kind):
    place = os.environ.get("FUZZ_MATERIAL")
    for path in sorted(glob.glob(os.path.join(place, "**", "*.json"), recursive=True)) if place else []:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            continue
        if not isinstance(found, dict):
            continue
        if kind == "patches" and isinstance(found.get("files"), list):
            yield from (f["patch"] for f in found["files"] if isinstance(f, dict) and f.get("patch"))
        if kind == "payloads" and "sender" in found:
            yield os.path.basename(path).split(".")[0] + "\n" + json.dumps(found)


def patches():
    """Hunks of this repository's own history."""
    git = ["git", "-C", ROOT, "log", "-p", "-n", "25", "--format=", "--unified=3", "--", "src"]
    text = subprocess.run(git, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    for file in text.split("diff --git ")[1:]:
        at = file.find("\n@@ ")
        if at >= 0:
            yield file[at + 1 :].rstrip("\n")
    yield from material("patches")


def quoted(patch):
    """An added line of a patch, and its right side as a file."""
    lines = [line[1:] for line in patch.split("\n") if line[:1] in ("+", " ")]
    added = [line[1:] for line in patch.split("\n") if line[:1] == "+"]
    return (added or lines or [""])[len(added) // 2 if added else 0], "\n".join(lines)


def seeds(target):
    if target == "webhook":
        for path in sorted(glob.glob(os.path.join(ROOT, "fixtures/webhook/*.json"))):
            with open(path, encoding="utf-8") as file:
                yield os.path.basename(path).split(".")[0] + "\n" + file.read()
        yield from material("payloads")
    elif target == "patch":
        for patch in patches():
            quote, new = quoted(patch[:20_000])
            yield SEPARATOR.join([patch[:20_000], quote, "a\nb\nc\n" + new[:500], new[:20_000]])
        yield "@@ -1,2 +1,3 @@\n a\n-b\n\\ No newline at end of file\n+c\n+d\r" + SEPARATOR + "c\nd" + SEPARATOR + "a\nb" + SEPARATOR + "a\nc\nd\r"
        yield "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-a\n+b\n"
    elif target == "reply":
        patch = "@@ -1,3 +1,3 @@\n let a = 1;\n-let b = 1;\n+let b = 2;\n let c = 3;\n"
        for answer in ANSWERS:
            for verdict in VERDICTS:
                yield SEPARATOR.join([answer, verdict, patch])
        for comment in COMMENTS:
            body = json.dumps({"findings": [{"title": comment[:80], "body": comment, "quote": "let b = 2;"}], "summary": comment})
            yield SEPARATOR.join([body, VERDICTS[0], patch])
        for patch, answer in zip(patches(), ANSWERS * 8):
            quote, _ = quoted(patch[:5_000])
            found = {"findings": [{"path": "a.rs", "title": "t", "quote": quote, "replacement": quote + " "}]}
            yield SEPARATOR.join([json.dumps(found), answer, patch[:5_000]])
    elif target == "configuration":
        for settings in SETTINGS:
            for policy in POLICIES:
                yield SEPARATOR.join([settings, policy, ATTRIBUTES, "src/gen/a.pb.go\nUse tabs."])
    elif target == "comment":
        for comment in COMMENTS:
            yield comment + SEPARATOR + COMMENTS[0]
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            for part in file.read().split("\n## "):
                yield part[:4_000]
    else:
        sys.exit(f"seeds.py: there is no target {target}")


def main():
    target, directory = sys.argv[1:]
    for seed in seeds(target):
        data = seed.encode("utf-8", "replace")
        if len(data) <= MOST:
            with open(os.path.join(directory, "seed-" + hashlib.sha1(data).hexdigest()[:16]), "wb") as file:
                file.write(data)


main()
