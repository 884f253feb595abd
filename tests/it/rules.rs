//! Every rule is tried on its own examples, and the engine on hostile files.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use secondlook::analysis::language::Language;
use secondlook::analysis::rules::definition::Rule;
use secondlook::analysis::rules::{Category, Hit, MAX_HITS, MAX_QUOTE_LINES, Scan, catalog, scan};
use secondlook::analysis::syntax::error_count;

const ALL: [Category; 5] =
    [Category::Correctness, Category::Security, Category::Performance, Category::Readability, Category::BestPractice];

/// Every rule with every language it is compiled for.
fn rules() -> Vec<(Option<Language>, &'static Rule)> {
    let of_languages = Language::ALL.iter().flat_map(|l| catalog::of(*l).all().iter().map(|rule| (Some(*l), rule)));
    of_languages.chain(catalog::anywhere().all().iter().map(|rule| (None, rule))).collect()
}

fn hits_of<'s>(rule: &Rule, scan: &'s Scan) -> Vec<&'s Hit> {
    scan.hits.iter().filter(|hit| hit.rule == rule.definition.id).collect()
}

#[test]
fn all_rules_compile_and_have_ids_of_their_own() {
    for language in Language::ALL {
        assert_eq!(catalog::of(language).broken(), &[] as &[String], "{language}");
    }
    assert_eq!(catalog::anywhere().broken(), &[] as &[String]);
    let mut seen = BTreeSet::new();
    for (language, rule) in rules() {
        assert!(seen.insert((language, &rule.definition.id)), "{} stands twice", rule.definition.id);
    }
    assert!(seen.len() >= 5, "{} rules", seen.len());
}

#[test]
fn every_rule_says_what_is_wrong_why_and_what_to_do() {
    for (_, rule) in rules() {
        let definition = &rule.definition;
        assert!((0.3..=1.0).contains(&definition.confidence), "{}", definition.id);
        assert!(definition.title.len() < 100 && !definition.title.ends_with('.'), "{}", definition.id);
        assert!(definition.why.ends_with('.') && definition.why.len() > 30, "{}", definition.id);
        assert!(definition.fix.ends_with('.') && definition.fix.len() > 10, "{}", definition.id);
        assert!(!definition.ok.is_empty() && !definition.not_ok.is_empty(), "{} needs examples", definition.id);
        if rule.category == Category::Security {
            assert!(definition.cwe.is_some(), "{} needs a CWE number", definition.id);
        }
    }
}

#[test]
fn every_rule_finds_its_bad_examples_and_is_silent_on_its_good_ones() {
    let mut wrong = Vec::new();
    for (language, rule) in rules() {
        for code in &rule.definition.ok {
            let scan = scan(language, "src/code", code, &ALL);
            if scan.unparsed.is_some() || !hits_of(rule, &scan).is_empty() {
                wrong.push(format!("{language:?} {} speaks on:\n{code}", rule.definition.id));
            }
            if language.is_some_and(|language| error_count(language, code) > 0) {
                wrong.push(format!("{language:?} {}: good example does not parse:\n{code}", rule.definition.id));
            }
        }
        for code in &rule.definition.not_ok {
            let scan = scan(language, "src/code", code, &ALL);
            if hits_of(rule, &scan).len() != 1 {
                let n = hits_of(rule, &scan).len();
                wrong.push(format!("{language:?} {} found {n} times in:\n{code}", rule.definition.id));
            }
            if language.is_some_and(|language| error_count(language, code) > 0) {
                wrong.push(format!("{language:?} {}: bad example does not parse:\n{code}", rule.definition.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn a_replacement_mends_what_was_found_and_breaks_nothing() {
    let mut replaced = 0;
    for (language, rule) in rules() {
        let Some(language) = language else { continue };
        for code in &rule.definition.not_ok {
            let before = scan(Some(language), "src/code", code, &ALL);
            for hit in hits_of(rule, &before) {
                let Some(replacement) = &hit.replacement else { continue };
                let lines: Vec<&str> = code.split('\n').collect();
                let (first, last) = (hit.line as usize - 1, hit.end_line as usize - 1);
                let mut mended = lines[..first].to_vec();
                mended.push(replacement);
                mended.extend(&lines[last + 1..]);
                let mended = mended.join("\n");
                assert!(error_count(language, &mended) <= error_count(language, code), "{mended}");
                assert!(hits_of(rule, &scan(Some(language), "src/code", &mended, &ALL)).is_empty(), "{mended}");
                replaced += 1;
            }
        }
    }
    assert!(replaced > 0);
}

#[test]
fn quotes_are_the_lines_they_name() {
    for (language, rule) in rules() {
        for code in &rule.definition.not_ok {
            let text = format!("\r\n\u{2028}\n{code}\r\n");
            let lines: Vec<&str> = text.split('\n').collect();
            for hit in scan(language, "src/code", &text, &ALL).hits {
                let (first, last) = (hit.line as usize - 1, hit.end_line as usize - 1);
                assert_eq!(hit.quote, lines[first..=last].join("\n"), "{}", rule.definition.id);
                assert!(last - first < MAX_QUOTE_LINES);
            }
        }
    }
}

#[test]
fn tests_and_generated_files_are_left_in_peace() {
    let code = "os.system(f\"rm {path}\")\n";
    let found = |path: &str, text: &str| scan(Some(Language::Python), path, text, &ALL).hits.len();
    assert_eq!(found("src/a.py", code), 1);
    assert_eq!(found("tests/test_a.py", code), 0);
    assert_eq!(found("src/a.py", &format!("def test_it():\n    {code}")), 0);
    assert_eq!(found("src/a.py", &format!("# @generated\n{code}")), 0);
    assert!(scan(Some(Language::Python), "vendor/a.py", code, &ALL).generated);
}

#[test]
fn only_the_wanted_categories_speak() {
    let code = "os.system(f\"rm {path}\")\n";
    assert!(scan(Some(Language::Python), "a.py", code, &[Category::Performance]).hits.is_empty());
    assert_eq!(scan(Some(Language::Python), "a.py", code, &[Category::Security]).hits.len(), 1);
}

#[test]
fn hostile_files_cost_little_and_do_not_panic() {
    let deep = |open: &str, close: &str, n: usize| format!("x = {}1{}", open.repeat(n), close.repeat(n));
    let texts = [
        "a".repeat(1 << 20),
        "os.system(f\"{a}\")\n".repeat(2_000),
        deep("(", ")", 50_000),
        deep("[", "]", 250),
        deep("f(", ")", 500),
        "{".repeat(20_000),
        "\"".repeat(10_001),
        "\0\0\0".into(),
        "\u{feff}\r\r\r\u{85}\u{2029}'''".repeat(1_000),
        "eval(x".repeat(2_000),
        "if x:\n for y in z:\n  ".repeat(300),
        "a + ".repeat(20_000),
    ];
    for (index, text) in texts.iter().enumerate() {
        for language in Language::ALL {
            let started = Instant::now();
            let scan = scan(Some(language), "src/code", text, &ALL);
            assert!(scan.hits.len() <= MAX_HITS);
            // The parser alone may take 4 seconds of it.
            assert!(started.elapsed() < Duration::from_secs(20), "text {index} as {language}: {:?}", started.elapsed());
        }
    }
}
