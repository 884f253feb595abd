//! What a model answers, as text: ten files with one finding each.

use secondlook::chat::{ModelRole, estimate_tokens};
use serde_json::{Value, json};

use super::{FILES, all_faults, answer, check, files, found, keeps, path, places, title};
use crate::harness::bot::{Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::fault::Fault;
use crate::harness::github::files::{Change, File};
use crate::harness::model::{Reply, finding};

#[test]
fn a_reply_truncated_always_keeps_what_is_whole_and_is_not_green() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES {
            let cut = format!("{{\"findings\":[{},{{\"path\":\"{}\",\"quo", found(n), path(n));
            bot.model.on_file(&path(n)).always(Reply::Text(cut));
            bot.model.on_critic(&path(n)).always(Reply::Text(keeps(1)));
        }
        bot.settle().await;
        let (conclusion, title, summary) = check(bot, &pr);
        assert_eq!((conclusion.as_str(), title.as_str()), ("neutral", "10 files not reviewed; 10 problems: 10 major"));
        assert_eq!(places(bot, &pr), all_faults());
        let reason = "`src/f0.rs`: the model's answer was unusable, also when asked again: ";
        assert!(summary.contains(reason), "{summary}");
        assert_eq!((bot.model.asked(ModelRole::Reviewer), bot.model.asked(ModelRole::Critic)), (20, 10));
    });
}

#[test]
fn a_malformed_reply_leaves_its_file_unreviewed_and_says_so() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES - 1 {
            bot.model.on_file(&path(n)).always(Reply::Text("{\"findings\": [}{, I think it is fine".into()));
        }
        bot.model.on_file(&path(9)).finds_nothing();
        bot.settle().await;
        let (conclusion, title, summary) = check(bot, &pr);
        assert_eq!((conclusion.as_str(), title.as_str()), ("neutral", "9 files not reviewed"));
        assert!(summary.contains("1 file reviewed, 9 not reviewed"), "{summary}");
        assert_eq!(bot.model.asked(ModelRole::Reviewer), 19, "each is asked again once");
    });
}

#[test]
fn a_reply_truncated_once_is_asked_for_again() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES {
            let whole = answer(&[found(n)]);
            let cut = &whole[..whole.len() - 30];
            bot.model.on_file(&path(n)).says_text(cut).says_text(&whole);
            bot.model.on_critic(&path(n)).says_text(&keeps(1));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), all_faults());
        assert_eq!(check(bot, &pr).1, "10 problems: 10 major");
    });
}

#[test]
fn what_was_whole_in_a_truncated_reply_stands_beside_what_came_later() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new("//- src/a.rs\n fn a() {\n+    first();\n+    second();\n }\n"));
        let first = finding("src/a.rs", "    first();", "Fails at first");
        let second = finding("src/a.rs", "    second();", "Wastes the second");
        let cut = format!("{{\"findings\":[{first},{{\"title\":\"Was");
        bot.model.on_file("src/a.rs").says_text(&cut).says_text(&answer(&[second]));
        bot.model.on_critic("src/a.rs").says_text(&keeps(2));
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/a.rs:2", "src/a.rs:3"]);
        assert_eq!(check(bot, &pr).1, "2 problems: 2 major");
    });
}

#[test]
fn fields_that_are_missing_or_of_another_type_cost_no_finding() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        let changes: [fn(&mut Value); FILES] = [
            |item| drop(item.as_object_mut().unwrap().remove("path")),
            |item| item["line"] = json!("2"),
            |item| drop(item.as_object_mut().unwrap().remove("severity")),
            |item| item["severity"] = json!("HIGH"),
            |item| drop(item.as_object_mut().unwrap().remove("category")),
            |item| drop(item.as_object_mut().unwrap().remove("title")),
            |item| drop(item.as_object_mut().unwrap().remove("body")),
            |item| item["confidence"] = json!("90%"),
            |item| (item["side"], item["end_line"]) = (json!("new"), json!("L2")),
            |item| item["quote"] = json!("```rust\n    risky_9()\n```"),
        ];
        for (n, change) in changes.into_iter().enumerate() {
            let mut item = found(n);
            change(&mut item);
            bot.model.on_file(&path(n)).always(Reply::Text(answer(&[item])));
            bot.model.on_critic(&path(n)).always(Reply::Text(keeps(1)));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), all_faults(), "{}", bot.github.page(&pr));
        let (_, title, _) = check(bot, &pr);
        assert!(title.starts_with("10 problems"), "{title}");
    });
}

#[test]
fn a_reply_of_which_something_was_dropped_is_never_clean() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES {
            let silent = json!({"line": 2, "severity": "major"});
            bot.model.on_file(&path(n)).always(Reply::Text(answer(&[silent])));
        }
        bot.settle().await;
        let (conclusion, title, _) = check(bot, &pr);
        assert_eq!((conclusion.as_str(), title.as_str()), ("neutral", "10 files not reviewed"));
    });
}

#[test]
fn a_line_that_is_off_without_a_quote_is_not_guessed() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES {
            let mut item = found(n);
            (item["quote"], item["line"]) = (json!(""), json!(4));
            bot.model.on_file(&path(n)).always(Reply::Text(answer(&[item])));
            bot.model.on_critic(&path(n)).always(Reply::Text(keeps(1)));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), [] as [&str; 0]);
        assert_eq!(bot.model.asked(ModelRole::Reviewer), 20, "each is asked for its quote once");
        let body = &bot.github.reviews(&pr)[0].body;
        assert!((0..FILES).all(|n| body.contains(&title(n))), "{body}");
    });
}

#[test]
fn of_the_same_code_twice_the_one_is_meant_that_quote_and_line_agree_on() {
    run_test(Setup::default(), async |bot| {
        let file =
            |name: &str| format!("//- src/{name}.rs\n fn a() {{\n+    retry();\n+    log();\n+    retry();\n }}\n");
        let pr = bot.github.open_pull(PullSpec::new(&["hint", "none", "wrong"].map(file).concat()));
        for (name, line) in [("hint", json!(4)), ("none", json!(null)), ("wrong", json!(3))] {
            let path = format!("src/{name}.rs");
            let mut item = finding(&path, "    retry();", &format!("Retries for ever ({name})"));
            item["line"] = line;
            bot.model.on_file(&path).always(Reply::Text(answer(&[item])));
            bot.model.on_critic(&path).always(Reply::Text(keeps(1)));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/hint.rs:4"]);
        let body = &bot.github.reviews(&pr)[0].body;
        assert!(body.contains("(none)") && body.contains("(wrong)"), "{body}");
    });
}

#[test]
fn a_line_outside_of_the_diff_goes_into_the_summary() {
    run_test(Setup::default(), async |bot| {
        let before: String = (1..=60).map(|n| format!(" line_{n}();\n")).collect();
        let change = before.replace(" line_30();\n", "-line_30();\n+line_30(1);\n");
        let pr = bot.github.open_pull(PullSpec::new(&format!("//- src/long.rs\n{change}")));
        let mut item = finding("src/long.rs", "line_5();", "Is called too early");
        (item["line"], item["end_line"]) = (json!(5), json!(5));
        bot.model.on_file("src/long.rs").always(Reply::Text(answer(&[item])));
        bot.model.on_critic("src/long.rs").always(Reply::Text(keeps(1)));
        bot.settle().await;
        assert_eq!(places(bot, &pr), [] as [&str; 0]);
        assert!(bot.github.reviews(&pr)[0].body.contains("Is called too early"), "{}", bot.github.page(&pr));
    });
}

#[test]
fn what_is_said_three_times_is_said_once() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES {
            bot.model.on_file(&path(n)).says_text(&answer(&[found(n), found(n), found(n)]));
            bot.model.on_critic(&path(n)).says_text(&keeps(1));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), all_faults());
    });
}

#[test]
fn a_flood_is_capped_by_rank_and_the_rest_is_counted() {
    run_test(Setup::default(), async |bot| {
        let lines: String = (0..8).map(|line| format!("+    step_{line}();\n")).collect();
        let file = |n| format!("//- {}\n fn f{n}() {{\n{lines} }}\n", path(n));
        let pr = bot.github.open_pull(PullSpec::new(&(0..FILES).map(file).collect::<String>()));
        // Words of their own, so that they are eight claims and not one.
        let claims = [
            "Panics without a key",
            "Leaks the handle",
            "Overflows at the end",
            "Blocks every reader",
            "Loses its error",
            "Compares wrong units",
            "Trusts foreign input",
            "Divides by zero",
        ];
        for n in 0..FILES {
            let claim = |(line, claim): (usize, &&str)| {
                let mut item = finding(&path(n), &format!("    step_{line}();"), &format!("{claim} {n}"));
                item["severity"] = json!(if n == 7 { "critical" } else { "minor" });
                item
            };
            let items: Vec<Value> = claims.iter().enumerate().map(claim).collect();
            bot.model.on_file(&path(n)).always(Reply::Text(answer(&items)));
            bot.model.on_critic(&path(n)).always(Reply::Text(keeps(8)));
        }
        bot.settle().await;
        let places = places(bot, &pr);
        assert_eq!((places.len(), places.iter().filter(|place| place.starts_with("src/f7.rs")).count()), (12, 8));
        let (_, _, summary) = check(bot, &pr);
        assert!(summary.contains("Left out by `review.max_comments`: 68 problems"), "{summary}");
    });
}

#[test]
fn a_model_that_makes_the_same_call_for_ever_is_stopped_after_a_few() {
    run_test(Setup::default(), async |bot| {
        let pr = bot.github.open_pull(files(FILES));
        for n in 0..FILES - 1 {
            let call = ("read_file".to_owned(), json!({"path": path(n)}));
            bot.model.on_file(&path(n)).always(Reply::Calls(vec![call]));
        }
        bot.model.on_file(&path(9)).finds_nothing();
        bot.settle().await;
        assert_eq!(check(bot, &pr).1, "9 files not reviewed");
        let requests = bot.model.requests();
        for n in 0..FILES - 1 {
            let own: Vec<_> = requests.iter().filter(|r| r.conversation.subject == path(n)).collect();
            // Run, answered from before, refused, then one turn without tools, in which it calls again and is told once;
            // the same when it is asked for its answer once more.
            assert_eq!(own.len(), 10, "{}", path(n));
            assert_eq!(own.iter().filter(|request| request.tools.is_empty()).count(), 4);
            let tokens: u64 = own.iter().flat_map(|r| &r.messages).map(|m| estimate_tokens(m.text())).sum();
            assert!(tokens < 40_000, "{tokens} tokens");
        }
    });
}

#[test]
fn code_with_odd_line_separators_is_quoted_and_commented_on() {
    run_test(Setup::default(), async |bot| {
        let odd =
            ["let a = \"x\u{2028}y\";", "let b = \"x\u{85}y\";", "let c = 1;\rlet d = 2;", "let e = \"\u{2029}\";"];
        let before = || Some(File::new("fn a() {\n}\n"));
        let mut change = Change::default();
        for (n, line) in odd.iter().enumerate() {
            change = change.and(&path(n), before(), Some(File::new(format!("fn a() {{\n    {line}\n}}\n"))));
        }
        let pr = bot.github.open_pull(PullSpec::of(change));
        for (n, line) in odd.iter().enumerate() {
            bot.model.on_file(&path(n)).finds(line, &title(n));
        }
        bot.settle().await;
        assert_eq!(places(bot, &pr), all_faults()[..odd.len()], "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_review_whose_posting_fails_is_read_back_and_posted_once() {
    let route = "POST /repos/*/*/pulls/*/reviews";
    for fault in [
        Fault::apply_then_status(route, 500),
        Fault::status(route, 500, "Server Error"),
        Fault::secondary_limit(route, Some("60")),
        Fault::status(route, 429, "Too many requests"),
    ] {
        run_test(Setup::default(), async |bot| {
            let pr = bot.github.open_pull(files(FILES));
            for n in 0..FILES {
                bot.model.on_file(&path(n)).finds(&super::fault(n), &title(n));
            }
            bot.github.fault(fault.clone());
            bot.settle().await;
            while bot.assembled.queue.next_due().await.unwrap().is_some() {
                bot.until_next_due().await;
            }
            assert_eq!((bot.github.reviews(&pr).len(), places(bot, &pr)), (1, all_faults()));
            assert_eq!(bot.model.asked(ModelRole::Reviewer), FILES, "nothing is paid for twice");
        });
    }
}
