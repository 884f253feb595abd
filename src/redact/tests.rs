use proptest::prelude::*;

use super::redact;

fn check(text: &str, expected: &str) {
    assert_eq!(redact(text), expected);
}

/// Letters and digits that look random, without standing in this file as anybody's key.
fn random(length: usize) -> String {
    let alphabet = b"aB3dE5gH7jK9mN2pQ4sT6vW8yZ";
    (0..length).map(|i| char::from(alphabet[(i * i * 7 + i * 3) % alphabet.len()])).collect()
}

#[test]
fn tokens_of_known_forms_are_masked() {
    let r = random;
    for (kind, token) in [
        ("github-token", format!("ghp_{}", r(36))),
        ("github-token", format!("gho_{}", r(36))),
        ("github-token", format!("ghu_{}", r(36))),
        ("github-token", format!("ghs_{}", r(36))),
        ("github-token", format!("ghs_123456_eyJ{}.eyJ{}.{}-{}_{}", r(40), r(220), r(100), r(100), r(40))),
        ("github-token", format!("github_pat_{}_{}", r(22), r(59))),
        ("aws-key", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("google-key", format!("AIza{}", r(35))),
        ("slack-token", format!("xoxb-1234567890-{}", r(24))),
        ("api-key", format!("sk-proj-{}", r(48))),
        ("api-key", format!("sk-ant-api03-{}", r(95))),
        ("api-key", "sk-0123456789abcdef0123456789abcdef".to_owned()),
        ("api-key", format!("sk_live_{}", r(24))),
        ("gitlab-token", format!("glpat-{}", r(20))),
        ("jwt", format!("eyJ{}.eyJ{}.{}", r(30), r(60), r(43))),
        ("jwt", format!("eyJ{}.eyJ{}", r(30), r(60))),
    ] {
        check(&format!("let t = {token}; // x"), &format!("let t = [redacted:{kind}]; // x"));
        check(&format!("call(\"{token}\")."), &format!("call(\"[redacted:{kind}]\")."));
    }
}

#[test]
fn headers_and_addresses_lose_only_their_secret() {
    check("Authorization: Bearer abcdef0123456789abcdef", "Authorization: Bearer [redacted:authorization]");
    check(
        ".header(\"Authorization\", \"Basic dXNlcjpwYXNzd29yZA==\")",
        ".header(\"Authorization\", \"Basic [redacted:authorization]\")",
    );
    check("postgres://app:hunter2@db.internal:5432/app", "postgres://app:[redacted:password]@db.internal:5432/app");
    check("https://x-access-token:abc@github.com/o/r", "https://x-access-token:[redacted:password]@github.com/o/r");
    check("mysql://u:p@ssw0rd@db/x", "mysql://u:[redacted:password]@db/x");
    check("redis://:pw@cache/0", "redis://:[redacted:password]@cache/0");
    for text in [
        "postgres://app:${DB_PASSWORD}@db/app",
        "format!(\"Bearer {token}\")",
        "Basic understanding of the bearer authentication scheme",
        "https://example.com:8080/path@v2",
        "std::collections::HashMap",
    ] {
        check(text, text);
    }
}

#[test]
fn assignments_lose_values_of_high_entropy() {
    check("password = \"S3cr3t!pw\"", "password = \"[redacted:secret]\"");
    check("DB_PASSWORD: 'Tr0ub4dor&3'", "DB_PASSWORD: '[redacted:secret]'");
    check("{\"api_key\": \"9f8e7d6c5b4a39281706f5e4d3c2b1a0\"}", "{\"api_key\": \"[redacted:secret]\"}");
    check("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzz12345678", "AWS_SECRET_ACCESS_KEY=[redacted:secret]");
    check("clientSecret := `a8Kd93Lsk29dkLs0`", "clientSecret := `[redacted:secret]`");
    for text in [
        "password = os.environ[\"DB_PASSWORD\"]",
        "let token = parse_token_v2(input128);",
        "token: Vec<ToolSpecification2>,",
        "max_tokens: 1000000000000000000",
        "password = \"password\"",
        "secret = \"${VAULT_SECRET_42_ABC}\"",
        "secret: ${{ secrets.GITHUB_TOKEN }}",
        "api_key = \"your-api-key-here-123\"",
        "token = self.tokenizer.next_token_128",
        "auth_token = request::headers::AUTHORIZATION_V2_X1",
        "const SECRET = loadSecretFromVault2023x1();",
    ] {
        check(text, text);
    }
}

#[test]
fn personal_data_is_masked() {
    check("mail jane.doe+x@mail.example.com now", "mail [redacted:email] now");
    check("call +49 30 1234567 or (+1-555-010-9999)", "call [redacted:phone] or ([redacted:phone])");
    check("tel: \"+8613812345678\"", "tel: \"[redacted:phone]\"");
    check("手机 13812345678。", "手机 [redacted:phone]。");
    check("身份证 11010519491231002X 号", "身份证 [redacted:id-number] 号");
    check("ssn 078-05-1120.", "ssn [redacted:id-number].");
    check("4111 1111 1111 1111", "[redacted:card]");
    check(
        "4111111111111111, 378282246310005, 5555-5555-5555-4444",
        "[redacted:card], [redacted:card], [redacted:card]",
    );
}

#[test]
fn code_survives() {
    for text in [
        "commit 4ba9f3f9a3a1de1f1f5a9ba1e3c2d8f6ad5e7c11",
        "sha256:757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "550e8400-e29b-41d4-a716-446655440000",
        "12345678-1234-1234-1234-123456789012",
        "1700000000000 1700000000 1700000000000000 1700000000000000000",
        "4111 1111 1111 1112",
        "110105194912310021",
        "0.4111111111111111 3.141592653589793",
        "666-12-3456 2024-01-02 192.168.100.200",
        "+1234567890,\n 12 +10 20 30 40 50\n-15551234567",
        "let x = y+1234567890;",
        "@@ -1200,30 +1200,31 @@",
        "index 83db48f..bf269f4 100644",
        "git@github.com:owner/repo.git icon@2x.png pkg@1.2.3 @scope/pkg@latest",
        "sk-folding-cube-large-loader sk-spinner",
        "assert_eq!(a, 15000000000); const FLAG: u64 = 17179869184;",
        "utc_datetime!(+9999-12-31 23:59:59)",
        "pub const INHERIT_PRIVATE_KEY: X509RequestInheritOptions = 3i32;",
        "if key.starts_with(\"-----BEGIN RSA PRIVATE KEY-----\") {\n    return parse_rsa_private_key_from_pem(key);\n}",
    ] {
        check(text, text);
    }
}

#[test]
fn a_private_key_keeps_its_lines() {
    let (a, b) = (random(64), random(64));
    let mask = "[redacted:private-key]";
    check(
        &format!(
            "x\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{a}\n{b}\nQw==\n-----END RSA PRIVATE KEY-----\ny"
        ),
        &format!(
            "x\n-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{mask}\n{mask}\n{mask}\n-----END RSA PRIVATE KEY-----\ny"
        ),
    );
    check(
        &format!("  3 +-----BEGIN PRIVATE KEY-----\n  4 +{a}\n  5 +{b}\n"),
        &format!("  3 +-----BEGIN PRIVATE KEY-----\n  4 +{mask}\n  5 +{mask}\n"),
    );
    check(
        &format!("key = \"-----BEGIN PRIVATE KEY-----\\n{a}\\n-----END PRIVATE KEY-----\";"),
        &format!("key = \"-----BEGIN PRIVATE KEY-----\\n{mask}\\n-----END PRIVATE KEY-----\";"),
    );
    let cut = format!("-----BEGIN OPENSSH PRIVATE KEY-----\r\n{a}\r\n{}", &b[..30]);
    check(&cut, &format!("-----BEGIN OPENSSH PRIVATE KEY-----\r\n{mask}\r\n{mask}"));
}

#[test]
fn code_that_came_as_json_is_masked_alike_and_stays_json() {
    let key = random(64);
    for line in [
        "password = \"S3cr3t!pw\"".to_owned(),
        "password = 'S3cr3t!pw'".to_owned(),
        "{\"token\": \"9f8e7d6c5b4a39281706f5e4d3c2b1a0\"}".to_owned(),
        "API_KEY=9f8e7d6c5b4a39281706f5e4d3c2b1a0".to_owned(),
        "jane@mail.example.com".to_owned(),
        "AKIAIOSFODNN7EXAMPLE".to_owned(),
        format!("sk-{}", random(40)),
        format!("eyJ{}.eyJ{}.{}", random(30), random(60), random(43)),
        "13812345678".to_owned(),
        "078-05-1120".to_owned(),
        "4111 1111 1111 1111".to_owned(),
        "(+1-555-010-9999)".to_owned(),
        "Bearer abcdef0123456789abcdef".to_owned(),
        "postgres://app:hunter2@db/app".to_owned(),
    ] {
        let text = format!("a\n{line}\n\tb");
        let masked = redact(&text);
        assert!(masked.contains("[redacted:"), "{line}");
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<String>(&redact(&json)).unwrap(), masked, "{json}");
    }
    // The lines of a key cannot be told from other code there, but the key itself is gone.
    let json = serde_json::to_string(&format!("-----BEGIN PRIVATE KEY-----\n{key}\n{key}\n-----END")).unwrap();
    let masked: String = serde_json::from_str(&redact(&json)).unwrap();
    assert!(!masked.contains(&key[..20]) && masked.lines().count() == 4, "{masked}");
}

#[test]
fn text_without_secrets_is_not_copied() {
    assert!(matches!(redact("fn main() {}"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn long_texts_of_near_misses_take_little_time() {
    for unit in [
        "password= ghp_ +1 sk- eyJ -----BEGIN PRIVATE KEY-----\n a@b 4111 ://x:",
        "+12345678 ",
        "x@y.z.",
        "://a:b:",
        "secret:secret=",
        "-----BEGIN PRIVATE KEY-----",
        "4111 ",
        "eyJaaaaaaaa.",
    ] {
        let text = unit.repeat(300_000 / unit.len());
        let took = crate::clock::Stopwatch::start();
        redact(&text);
        // Linear work takes a second here even unoptimised; anything quadratic takes minutes.
        assert!(took.elapsed().as_secs() < 30, "{unit}");
    }
}

/// Pieces that make secrets when they stand together, so that random texts are not all harmless.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("password = \"".to_owned()),
        Just("://u:".to_owned()),
        Just("@".to_owned()),
        Just("+49".to_owned()),
        Just("Bearer ".to_owned()),
        Just("-----BEGIN PRIVATE KEY-----\n".to_owned()),
        Just("ghp_".to_owned()),
        Just("[redacted:secret]".to_owned()),
        Just("4111 1111 1111 1111".to_owned()),
        "[A-Za-z0-9]{0,40}",
        "[0-9 .-]{0,20}",
        "\\PC{0,6}",
        Just("\n".to_owned()),
        Just("\"".to_owned()),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn masking_twice_is_masking_once(text in pieces()) {
        let once = redact(&text).into_owned();
        prop_assert_eq!(redact(&once), once.as_str());
    }

    #[test]
    fn lines_are_kept(text in pieces()) {
        prop_assert_eq!(redact(&text).lines().count(), text.lines().count());
    }
}
