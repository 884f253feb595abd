//! Odd pull requests on GitHub: with nothing in them, with nothing to read, with more than anybody reads.

use crate::harness::bot::{Answers, Bot, Setup, run_test};
use crate::harness::github::actions::PullSpec;
use crate::harness::github::files::{Change, File};

fn embedded() -> Setup {
    Setup { answers: Answers::Embedded, ..Setup::default() }
}

/// Opens a pull request, and how its check ended: conclusion, title, summary.
async fn check_of(bot: &Bot, change: Change) -> (String, String, String) {
    let pr = bot.github.open_pull(PullSpec::of(change));
    bot.settle().await;
    assert_eq!(bot.github.reviews(&pr).len(), 0, "{}", bot.github.page(&pr));
    let check = bot.github.checks(&pr).pop().expect("a check");
    (check.conclusion.unwrap_or_default(), check.title.unwrap_or_default(), check.summary.unwrap_or_default())
}

#[test]
fn a_pull_request_without_files_has_no_problems() {
    run_test(embedded(), async |bot| {
        let same = Some(File::new("import os\n"));
        let (conclusion, title, summary) = check_of(bot, Change::of("a.py", same.clone(), same)).await;
        assert_eq!((conclusion.as_str(), title.as_str()), ("success", "No problems found"));
        assert!(summary.contains("0 files reviewed"), "{summary}");
    });
}

#[test]
fn files_that_are_gone_or_no_text_are_named_and_the_check_is_green() {
    run_test(embedded(), async |bot| {
        let change = Change::of("gone.py", Some(File::new("import os\n")), None)
            .and("image.png", Some(File::new(b"\0\x01".to_vec())), Some(File::new(b"\0\x02".to_vec())))
            .and("run.sh", Some(File::new("true\n")), Some(File::executable("true\n")))
            .and("empty.py", None, Some(File::new("")))
            .and("library", None, Some(File::submodule("0123456789012345678901234567890123456789")));
        let (conclusion, _, summary) = check_of(bot, change).await;
        assert_eq!(conclusion, "success");
        for name in ["`gone.py`", "`image.png`", "`run.sh`", "`empty.py`", "`library`"] {
            assert!(summary.contains(name), "{name} is not named: {summary}");
        }
    });
}

#[test]
fn what_cannot_be_read_is_named_and_the_check_is_not_green() {
    run_test(embedded(), async |bot| {
        let huge = |text: &str| Some(File::new(format!("x = 1\n{}{text}\n", "# One line of many.\n".repeat(80_000))));
        let change = Change::of("huge.py", huge("a = 1"), huge("a = 2")).and("a.py", None, Some(File::new("a = 1\n")));
        let (conclusion, title, summary) = check_of(bot, change).await;
        assert_eq!(conclusion, "neutral");
        assert!(title.contains("1 file not reviewed") && summary.contains("`huge.py`"), "{title} {summary}");
        assert!(summary.contains("1 file reviewed"), "{summary}");
    });
}
