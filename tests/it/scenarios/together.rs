//! Small files are reviewed together, and people see what they would see otherwise.

use secondlook::chat::{ChatError, ModelRole, estimate_tokens};
use serde_json::json;

use crate::harness::bot::{Bot, Setup, run_test};
use crate::harness::github::Pr;
use crate::harness::github::actions::PullSpec;
use crate::harness::model::finding;

fn grouping() -> Setup {
    Setup { group_files: 8, ..Setup::default() }
}

/// New files of three lines each, with a fault in the second that names the file's number.
fn tiny(count: usize) -> String {
    let file =
        |n: usize| format!("//- src/f{n:02}.rs\n+pub fn f{n}(map: &Map) -> u32 {{\n+    map.at({n}).unwrap()\n+}}\n");
    (0..count).map(file).collect()
}

fn quote(n: usize) -> String {
    format!("map.at({n}).unwrap()")
}

fn path(n: usize) -> String {
    format!("src/f{n:02}.rs")
}

/// Scripts one fault in each of the files.
fn each_has_one(bot: &Bot, count: usize) {
    for n in 0..count {
        bot.model.on_file(&path(n)).finds(&quote(n), &format!("Stops where there is no number {n}"));
    }
}

/// `path:line` of every comment.
fn places(bot: &Bot, pr: &Pr) -> Vec<String> {
    let mut places: Vec<String> = bot.github.comments(pr).iter().map(|c| format!("{}:{}", c.path, c.line)).collect();
    places.sort();
    places
}

/// Calls and estimated prompt tokens so far.
fn cost(bot: &Bot) -> (usize, u64) {
    let requests = bot.model.requests();
    let tokens = requests.iter().flat_map(|r| &r.messages).map(|m| estimate_tokens(m.text())).sum();
    (requests.len(), tokens)
}

#[test]
fn ten_tiny_files_cost_four_calls() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(10)));
        each_has_one(bot, 10);
        bot.settle().await;
        let expected: Vec<String> = (0..10).map(|n| format!("{}:2", path(n))).collect();
        assert_eq!(places(bot, &pr), expected, "{}", bot.github.page(&pr));
        for comment in bot.github.comments(&pr) {
            let number = comment.path.trim_start_matches("src/f").trim_end_matches(".rs").trim_start_matches('0');
            let number = if number.is_empty() { "0" } else { number };
            assert!(comment.body.contains(&format!("no number {number}.")), "{}: {}", comment.path, comment.body);
        }
        let summary = bot.github.checks(&pr)[0].summary.clone().unwrap();
        assert!(summary.contains("10 files reviewed"), "{summary}");
        // Eight and two files, each a draft and a second look.
        assert_eq!(cost(bot).0, 4);
        assert!(summary.contains("4 model calls"), "what a group cost is counted once: {summary}");
    });
}

/// What the review of so many tiny files costs alone and together.
fn costs(count: usize) -> [(usize, u64); 2] {
    [1, 8].map(|group_files| {
        let cost_of = std::sync::Mutex::new((0, 0));
        run_test(Setup { group_files, ..Setup::default() }, async |bot| {
            bot.github.open_pull(PullSpec::new(&tiny(count)));
            each_has_one(bot, count);
            bot.settle().await;
            *cost_of.lock().unwrap() = cost(bot);
        });
        cost_of.into_inner().unwrap()
    })
}

#[test]
fn twenty_tiny_files_cost_a_fraction() {
    let [alone, together] = costs(20);
    assert_eq!((alone.0, together.0), (40, 6));
    assert!(together.1 * 3 < alone.1, "{alone:?} {together:?}");
}

#[test]
fn one_small_file_is_asked_about_as_ever() {
    let mut asked = Vec::new();
    for group_files in [1, 8] {
        let requests = std::sync::Mutex::new(Vec::new());
        run_test(Setup { group_files, ..Setup::default() }, async |bot| {
            bot.github.open_pull(PullSpec::new(&tiny(1)));
            each_has_one(bot, 1);
            bot.settle().await;
            *requests.lock().unwrap() = bot.model.requests();
        });
        asked.push(requests.into_inner().unwrap());
    }
    assert_eq!(asked[0], asked[1]);
}

#[test]
fn the_same_code_in_two_files_is_two_findings() {
    run_test(grouping(), async |bot| {
        // Too short to be told as one finding with two places, as a longer quote would be.
        let pr = bot.github.open_pull(PullSpec::new("//- src/a.rs\n+x.pop()!;\n//- src/b.rs\n+// b\n+x.pop()!;\n"));
        let both = [finding("src/a.rs", "x.pop()!;", "Empty stack"), finding("b/src/b.rs", "x.pop()!;", "Empty stack")];
        bot.model.on_files(&["src/a.rs", "src/b.rs"]).says(json!({"findings": both, "summary": ""}));
        let keep = |index: u32| json!({"index": index, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        bot.model.on_critics(&["src/a.rs", "src/b.rs"]).says(json!({"verdicts": [keep(0), keep(1)], "missed": []}));
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/a.rs:1", "src/b.rs:2"], "{}", bot.github.page(&pr));
    });
}

#[test]
fn a_finding_belongs_to_the_file_it_names_or_whose_code_it_quotes() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(3)));
        let paths = ["src/f00.rs", "src/f01.rs", "src/f02.rs"];
        let found = [
            finding("src/other.rs", &quote(0), "Names a file that is not here"),
            finding("", &quote(1), "Stops where there is no number 1"),
            finding("", "}", "Could be meant anywhere"),
        ];
        bot.model.on_files(&paths).says(json!({"findings": found, "summary": ""}));
        let keep = json!({"index": 0, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        bot.model.on_critics(&paths).says(json!({"verdicts": [keep], "missed": []}));
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/f01.rs:2"], "{}", bot.github.page(&pr));
        let page = bot.github.page(&pr);
        assert!(!page.contains("not here") && !page.contains("anywhere"), "{page}");
    });
}

#[test]
fn where_the_answer_is_no_use_each_file_is_reviewed_alone() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(3)));
        let paths = ["src/f00.rs", "src/f01.rs", "src/f02.rs"];
        bot.model.on_files(&paths).says_text("All of it looks good to me.").says_text("As I said.");
        bot.model.on_file(paths[0]).finds(&quote(0), "Stops where there is no number 0");
        bot.model.on_file(paths[1]).finds_nothing();
        bot.model.on_file(paths[2]).says_text("Fine.").says_text("Fine.");
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/f00.rs:2"], "{}", bot.github.page(&pr));
        let summary = bot.github.checks(&pr)[0].summary.clone().unwrap();
        assert!(summary.contains("2 files reviewed, 1 not reviewed"), "{summary}");
        assert!(summary.contains("`src/f02.rs`: the model's answer was unusable"), "{summary}");
        assert!(!summary.contains("f00.rs`: ") && !summary.contains("f01.rs`: "), "{summary}");
        assert!(summary.contains("7 model calls"), "{summary}");
    });
}

#[test]
fn what_was_whole_in_a_cut_answer_is_kept_where_nothing_better_comes() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(2)));
        let paths = ["src/f00.rs", "src/f01.rs"];
        let whole = finding(paths[0], &quote(0), "Stops where there is no number 0");
        let cut = format!("{{\"findings\":[{whole},{{\"path\":\"src/f01");
        bot.model.on_files(&paths).says_text(&cut).says_text(&cut);
        // The findings of a draft that is cut have their second look all the same.
        let keep = json!({"index": 0, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        bot.model.on_critics(&paths).says(json!({"verdicts": [keep], "missed": []}));
        bot.model.on_file(paths[0]).always_fails(ChatError::Rejected("no".into()));
        bot.model.on_file(paths[1]).finds(&quote(1), "Stops where there is no number 1");
        bot.settle().await;
        assert_eq!(places(bot, &pr), ["src/f00.rs:2", "src/f01.rs:2"], "{}", bot.github.page(&pr));
        let summary = bot.github.checks(&pr)[0].summary.clone().unwrap();
        assert!(summary.contains("1 file reviewed, 1 not reviewed"), "{summary}");
    });
}

#[test]
fn a_restart_pays_for_no_finished_call_again() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(10)));
        each_has_one(bot, 8);
        for n in [8, 9] {
            bot.model.on_file(&path(n)).finds_again(&quote(n), &format!("Stops where there is no number {n}"));
        }
        // The first group is finished; the second look at the other one finds no model.
        let down = ChatError::Unavailable("down".into());
        bot.model.on_critics(&["src/f08.rs", "src/f09.rs"]).always_fails(down.clone());
        bot.settle().await;
        let drafts = bot.model.asked(ModelRole::Reviewer);
        assert_eq!((drafts, places(bot, &pr).len()), (2, 0), "{}", bot.github.page(&pr));
        let critics = bot.model.asked(ModelRole::Critic);
        bot.restart();
        let keep = |index: u32| json!({"index": index, "verdict": "keep", "reason": "So it is.", "confidence": 0.9});
        let verdicts = json!({"verdicts": [keep(0), keep(1)], "missed": []});
        bot.model.on_critics(&["src/f08.rs", "src/f09.rs"]).says(verdicts);
        bot.until_next_due().await;
        assert_eq!(places(bot, &pr).len(), 10, "{}", bot.github.page(&pr));
        assert_eq!(bot.model.asked(ModelRole::Reviewer), drafts, "a draft was paid for twice");
        assert_eq!(bot.model.asked(ModelRole::Critic), critics + 1);
    });
}

#[test]
fn a_restart_goes_on_among_files_that_are_reviewed_alone_after_all() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(2)));
        let paths = ["src/f00.rs", "src/f01.rs"];
        bot.model.on_files(&paths).says_text("Fine.").says_text("Fine.");
        bot.model.on_file(paths[0]).finds(&quote(0), "Stops where there is no number 0");
        bot.model.on_file(paths[1]).always_fails(ChatError::Unavailable("down".into()));
        bot.settle().await;
        let asked = bot.model.requests().len();
        assert!(bot.github.comments(&pr).is_empty(), "{}", bot.github.page(&pr));
        bot.restart();
        bot.model.on_file(paths[1]).finds_nothing();
        bot.until_next_due().await;
        assert_eq!(places(bot, &pr), ["src/f00.rs:2"], "{}", bot.github.page(&pr));
        assert_eq!(bot.model.requests().len(), asked + 1, "only what was missing is asked");
    });
}

#[test]
fn a_later_push_is_reviewed_by_its_new_hunks_alone() {
    run_test(grouping(), async |bot| {
        let pr = bot.github.open_pull(PullSpec::new(&tiny(3)));
        each_has_one(bot, 3);
        bot.settle().await;
        let before = bot.model.requests().len();
        bot.github.push(
            &pr,
            "//- src/f01.rs\n pub fn f1(map: &Map) -> u32 {\n     map.at(1).unwrap()\n+    // One.\n }\n\
             //- src/f07.rs\n+pub fn f7(map: &Map) -> u32 {\n+    map.at(7).unwrap()\n+}\n",
        );
        bot.model.on_file("src/f01.rs").finds_again(&quote(1), "Stops where there is no number 1");
        bot.model.on_file("src/f07.rs").finds(&quote(7), "Stops where there is no number 7");
        bot.settle().await;
        let page = bot.github.page(&pr);
        assert_eq!(places(bot, &pr), ["src/f00.rs:2", "src/f01.rs:2", "src/f02.rs:2", "src/f07.rs:2"], "{page}");
        let requests = bot.model.requests();
        assert_eq!(requests.len() - before, 2, "one draft and one second look");
        let asked = requests[before].messages[1].text();
        assert!(asked.contains("\"src/f01.rs\"") && asked.contains("\"src/f07.rs\""), "{asked}");
        assert!(!asked.contains("\"src/f00.rs\"") && !asked.contains("\"src/f02.rs\""), "{asked}");
    });
}
