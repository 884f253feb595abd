//! A pull request is opened.

use insta::assert_snapshot;
use serde_json::json;

use super::{CACHE, CACHE_FAULT};
use crate::harness::bot::{Answers, Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::model::finding;

#[test]
fn opened_with_findings() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE).title("Look keys up"));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Look keys up [open] by alice
        check secondlook: neutral: 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
    });
}

#[test]
fn opened_clean_is_silence_and_a_green_check() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").finds_nothing();
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: success: No problems found
        ");
    });
}

#[test]
fn a_suggestion_can_be_committed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        let mut fault = finding("src/cache.rs", CACHE_FAULT, "Panics when the key is missing");
        fault["quote"] = json!("    *map.get(key).unwrap()");
        fault["replacement"] = json!("    map.get(key).copied().unwrap_or_default()");
        bot.model.on_file("src/cache.rs").finds_all(&[fault]);
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            ```suggestion
                map.get(key).copied().unwrap_or_default()
            ```

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
    });
}

#[test]
fn the_model_looks_around_with_tools() {
    run_test(Setup::default(), async |bot| {
        bot.github.commit_main("acme/app", "//- src/load.rs\npub const KEYS: [&str; 1] = [\"port\"];\n");
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        bot.model.on_file("src/cache.rs").calls("read_file", json!({"path": "src/load.rs"})).finds_nothing();
        bot.settle().await;
        let requests = bot.model.requests();
        let seen = requests.last().unwrap().messages.last().unwrap().text();
        assert!(seen.contains("KEYS: [&str; 1]"), "the file is not shown: {seen}");
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: success: No problems found
        ");
    });
}

#[test]
fn findings_that_cannot_be_placed_go_into_the_summary() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(CACHE));
        let lost = finding("src/cache.rs", "map.remove(key)", "Removes the key");
        let answer = json!({"findings": [lost], "summary": ""});
        // Asked once more, the model quotes the same again.
        bot.model.on_file("src/cache.rs").finds_all(std::slice::from_ref(&lost)).says(answer);
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          Without a line to comment on:

          **Removes the key** · major · correctness
          `src/cache.rs` (the code is not part of the diff)

          ```
          map.remove(key)
          ```

          Removes the key. Handle the case where this does not hold, or say why it always does.
        ");
    });
}

#[test]
fn without_a_key_the_embedded_rules_review() {
    let setup = Setup { answers: Answers::Embedded, ..Setup::default() };
    run_test(setup, async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(
            "
            //- app/report.py
             import os


             def report(name):
            -    return name
            +    os.system(f\"cat {name}\")
            +    return eval(name)
            ",
        ));
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r#"
        #1 Change something [open] by alice
        check secondlook: neutral: 2 problems: 2 critical

        secondlook[bot] reviewed head1
          Found 2 problems: 2 critical.

          app/report.py:5
          | +    os.system(f"cat {name}")
            **Command line built from values and run by a shell** · critical · security

            A value with `;`, `$(…)` or a quote in it becomes a command of its own.

            Pass a list of arguments without `shell=True`; where a shell is needed, quote every value with `shlex.quote`.

            <details><summary>Evidence</summary>

            - `check_security`: python-shell-injection: Command line built from values and run by a shell
            - `critic`: Confirmed in round 1: Rule `python-shell-injection` hits this code again.
            - Found by `python-shell-injection`, confidence 90 %

            </details>

          app/report.py:6
          | +    return eval(name)
            **Evaluating text that is not a constant** · critical · security

            Whoever influences this text runs code of their own with the rights of this process.

            Parse the value instead (`ast.literal_eval`, `json.loads`), or look the operation up in a table of allowed ones.

            <details><summary>Evidence</summary>

            - `check_security`: python-eval: Evaluating text that is not a constant
            - `critic`: Confirmed in round 1: Rule `python-eval` hits this code again.
            - Found by `python-eval`, confidence 90 %

            </details>
        "#);
    });
}

#[test]
fn the_repository_s_own_configuration_is_followed_from_the_base_branch() {
    run_test(Setup::default(), async |bot| {
        bot.github.repo("acme/app");
        bot.github.commit_main(
            "acme/app",
            "//- .github/secondlook.yml\nreview:\n  fail_on: major\n  max_comment: 3\npaths:\n  ignore: ['docs/**']\n",
        );
        let pr = bot.github.open_pull(PullSpec::new(&format!("{CACHE}    //- docs/guide.md\n    +More.\n")));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: failure: 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
        assert_snapshot!(bot.github.checks(&pr)[0].summary.as_deref().unwrap_or_default(), @r"
        Found 1 problem (major). The check fails from `major` on.

        | score | security | performance | readability | best practice |
        | ---: | ---: | ---: | ---: | ---: |
        | 91.9 | 100 | 100 | 82 | 82 |

        1 file reviewed, 1 left out by configuration.

        Left out on purpose:

        - `docs/guide.md`: ignored by `docs/**`

        In `.github/secondlook.yml` on the base branch:

        - line 3, column 3: There is no key `review.max_comment`; there are `trigger`, `drafts`, `severity_floor`, `max_comments`, `request_changes`, `fail_on`.

        2 model calls, 2079 tokens in (0 cached), 133 out. Trace `pr:1003:1`.
        ");
    });
}

#[test]
fn a_file_the_model_fails_on_is_named_and_the_check_is_not_green() {
    use secondlook::chat::ChatError;
    run_test(Setup::default(), async |bot| {
        let pr =
            bot.github.open_pull(PullSpec::new(&format!("{CACHE}    //- src/other.rs\n    +pub fn other() {{}}\n")));
        bot.model.on_file("src/cache.rs").finds(CACHE_FAULT, "Panics when the key is missing");
        bot.model.on_file("src/other.rs").always_fails(ChatError::Rejected("the prompt is too long".into()));
        bot.settle().await;
        assert_snapshot!(bot.github.page(&pr), @r"
        #1 Change something [open] by alice
        check secondlook: neutral: 1 file not reviewed; 1 problem (major)

        secondlook[bot] reviewed head1
          Found 1 problem (major).

          Not reviewed:

          - `src/other.rs`: the model provider refused the request: the prompt is too long

          src/cache.rs:4
          | +    *map.get(key).unwrap()
            **Panics when the key is missing** · major · correctness

            Panics when the key is missing. Handle the case where this does not hold, or say why it always does.

            <details><summary>Evidence</summary>

            - `critic`: Confirmed in round 1: The code does this.
            - Found by `scripted`, confidence 90 %

            </details>
        ");
        assert_snapshot!(bot.github.checks(&pr)[0].summary.as_deref().unwrap_or_default(), @r"
        Found 1 problem (major). The check does not fail for findings, because `review.fail_on` is not set.

        | score | security | performance | readability | best practice |
        | ---: | ---: | ---: | ---: | ---: |
        | 91.9 | 100 | 100 | 82 | 82 |

        1 file reviewed, 1 not reviewed.

        Not reviewed:

        - `src/other.rs`: the model provider refused the request: the prompt is too long

        2 model calls, 2079 tokens in (0 cached), 133 out. Trace `pr:1003:1`.
        ");
    });
}

#[test]
fn ten_files_take_few_requests() {
    run_test(Setup::default(), async |bot| {
        let files: String =
            (0..10).map(|n| format!("//- src/f{n}.rs\n+pub fn f{n}(x: Option<u8>) -> u8 {{ x.unwrap() }}\n")).collect();
        let pr = bot.github.open_pull(PullSpec::new(&files));
        for n in 0..10 {
            bot.model.on_file(&format!("src/f{n}.rs")).finds("x.unwrap()", "Panics without a value");
        }
        bot.settle().await;
        assert_eq!(bot.github.comments(&pr).len(), 10);
        let requests: Vec<String> = bot.github.requests().iter().map(|r| format!("{} {}", r.method, r.path)).collect();
        // 8 and one for each 100 files; the texts that tools and prompts read are one request more.
        assert!(requests.len() <= 10, "{} requests: {requests:#?}", requests.len());
    });
}
