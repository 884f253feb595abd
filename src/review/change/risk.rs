//! How much a fault in a file would likely cost: the order in which files are reviewed. Pure.
//!
//! Paths hint at it most, then what the added lines do, then how much is new. It is an order and no judgement: nothing is
//! left out by it unless a budget runs out.

use crate::diff::{FileDiff, LineKind};

/// Beginnings of words in a path that hint at code where a fault costs most.
const RISKY: [&str; 42] = [
    "acl",
    "admin",
    "authent",
    "authori",
    "authn",
    "authz",
    "billing",
    "cert",
    "cipher",
    "cors",
    "credential",
    "crypt",
    "csrf",
    "decrypt",
    "deseriali",
    "docker",
    "encrypt",
    "exec",
    "jwt",
    "login",
    "migrat",
    "oauth",
    "passw",
    "payment",
    "permission",
    "policy",
    "privilege",
    "query",
    "rbac",
    "saml",
    "sandbox",
    "schema",
    "secret",
    "security",
    "session",
    "shell",
    "signat",
    "sql",
    "token",
    "upload",
    "webhook",
    "workflow",
];

/// Words of a path that hint at it as they stand; as beginnings they would mean other things (`author`).
const RISKY_WORDS: [&str; 8] = ["auth", "ci", "iam", "ssl", "sso", "tls", "unsafe", "wal"];

/// Words of a path that hint at code which is not shipped.
const HARMLESS: [&str; 20] = [
    "bench",
    "benches",
    "benchmark",
    "benchmarks",
    "changelog",
    "demo",
    "doc",
    "docs",
    "example",
    "examples",
    "fixture",
    "fixtures",
    "mock",
    "mocks",
    "snapshot",
    "snapshots",
    "spec",
    "specs",
    "test",
    "tests",
];

/// Endings of files that people read and machines do not run.
const PROSE: [&str; 7] = [".adoc", ".csv", ".md", ".mdx", ".rst", ".svg", ".txt"];

/// Parts of added lines that do what is easily done wrongly.
const RISKY_CODE: [&str; 24] = [
    "chmod",
    "dangerouslysetinnerhtml",
    "decrypt",
    "delete from",
    "drop table",
    "encrypt",
    "eval(",
    "exec(",
    "grant ",
    "hmac",
    "innerhtml",
    "insert into",
    "md5",
    "password",
    "pickle",
    "popen",
    "private_key",
    "pull_request_target",
    "secret",
    "select ",
    "subprocess",
    "system(",
    "unsafe ",
    "verify=false",
];

/// Changed lines that are looked at: what a file is about shows early.
const LINES_READ: usize = 400;

/// Bytes of a line that are looked at.
const LINE_BYTES: usize = 400;

/// The likely cost of a fault here; only the order of two of them means something.
pub(super) fn risk(diff: &FileDiff) -> i64 {
    let (mut risky, mut harmless) = (false, false);
    for word in words(&diff.path) {
        risky |= RISKY.iter().any(|part| word.starts_with(part)) || RISKY_WORDS.contains(&word.as_str());
        harmless |= HARMLESS.contains(&word.as_str());
    }
    let path = diff.path.to_lowercase();
    harmless |= PROSE.iter().any(|ending| path.ends_with(ending));
    let mut risk = 0;
    if risky {
        risk += 2_000;
    }
    if does_risky_things(diff) {
        risk += 1_000;
    }
    if harmless {
        risk -= 4_000;
    }
    let (added, removed) = diff.counts();
    let changed = i64::try_from(added.saturating_add(removed / 2)).unwrap_or(i64::MAX);
    risk + changed.min(999)
}

fn does_risky_things(diff: &FileDiff) -> bool {
    let changed = diff.hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.kind != LineKind::Context);
    changed.take(LINES_READ).any(|line| {
        // A check that goes is as risky as a call that comes, so removed lines count too.
        let text = line.text.get(..line.text.floor_char_boundary(LINE_BYTES)).unwrap_or_default().to_lowercase();
        RISKY_CODE.iter().any(|part| text.contains(part))
    })
}

/// The words of a path in lower case: `src/authService/log_in.rs` is `src`, `auth`, `service`, `log`, `in`, `rs`.
fn words(path: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in path.chars() {
        let begins = !c.is_alphanumeric() || (c.is_uppercase() && before.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::FileStatus;
    use crate::diff::parse::parse_patch;

    fn of(path: &str, patch: &str) -> i64 {
        let hunks = parse_patch(patch).0;
        risk(&FileDiff { path: path.into(), old_path: None, status: FileStatus::Modified, hunks })
    }

    #[test]
    fn paths_are_read_by_their_words() {
        assert_eq!(words("src/authService/log_in.rs"), ["src", "auth", "service", "log", "in", "rs"]);
        assert_eq!(words("//.-"), Vec::<String>::new());
        let plain = of("src/a.rs", "");
        for risky in [
            "src/auth/mod.rs",
            "lib/OAuthClient.ts",
            "db/migrations/0007_users.up",
            ".github/workflows/ci.yml",
            "Dockerfile",
            "src/SqlBuilder.java",
            "app/session_store.py",
        ] {
            assert!(of(risky, "") > plain, "{risky}");
        }
        for plainly in ["src/authors.rs", "src/latest/inspector.rs", "src/attestation/contest.rs", "src/document.rs"] {
            assert_eq!(of(plainly, ""), plain, "{plainly}");
        }
        for harmless in ["README.md", "tests/auth.rs", "src/auth.test.ts", "docs/login.rs", "benches/crypto.rs"] {
            assert!(of(harmless, "") < plain, "{harmless}");
        }
    }

    #[test]
    fn what_the_lines_do_counts_before_how_many_there_are() {
        let long: String = (0..2_000).map(|n| format!("+let a{n} = {n};\n")).collect();
        let (risky, gone, long) = (
            of("src/a.rs", "@@ -1,0 +1 @@\n+query(\"SELECT a FROM \" + table)"),
            of("src/a.rs", "@@ -1 +0,0 @@\n-verify(password)"),
            of("src/a.rs", &format!("@@ -0,0 +1,2000 @@\n{long}")),
        );
        assert!(risky > long && gone > long && long > of("src/a.rs", "@@ -0,0 +1 @@\n+let a = 1;"));
        assert!(of("src/login.rs", "") > risky, "and where they stand before both");
        assert!(of("a.rs", &format!("@@ -0,0 +1 @@\n+{}é password", "é".repeat(LINE_BYTES))) < 1_000);
    }
}
