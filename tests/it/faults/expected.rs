//! What does not end in the calm page, each with its reason. A line that no combination needs fails the test.

use super::stage::Played;

/// Combinations that end otherwise.
pub(super) struct Exception {
    /// The fault's name.
    pub(super) fault: &'static str,
    /// The places: one of these, all when there is none.
    places: &'static [&'static str],
    ends: Ends,
    /// Why this is right.
    pub(super) why: &'static str,
}

/// How.
enum Ends {
    /// In a dead letter that says this. The pages may lack what was to come.
    DeadLetter(&'static str),
    /// In pages that say this instead.
    Page(&'static str),
    /// In the calm pages without this (with all of the line, where it stands at the beginning).
    Without(&'static str),
    /// In pages on which nothing is said that a calm day's do not say, and something is missing.
    Silence,
}

/// The App's own routes: it shows its assertion there, and no token.
const AS_APP: &[&str] = &["POST /app/installations/*/access_tokens", "GET /app"];
const REACTION: &[&str] = &["POST /repos/*/*/issues/comments/*/reactions"];
const ONE_COMMENT: &[&str] = &["GET /repos/*/*/issues/comments/*", "GET /repos/*/*/pulls/comments/*"];
const PERMISSION: &[&str] = &["GET /repos/*/*/collaborators/*/permission"];
const END_CHECK: &[&str] = &["PATCH /repos/*/*/check-runs/*"];
const GET_CHECKS: &[&str] = &["GET /repos/*/*/commits/*/check-runs"];
const TOKEN: &[&str] = &["POST /app/installations/*/access_tokens"];
const ANSWER: &[&str] = &["POST /repos/*/*/pulls/*/comments/*/replies", "POST /repos/*/*/issues/*/comments"];

const REVIEWER: &[&str] = &["model Reviewer"];
const CRITIC: &[&str] = &["model Critic"];
const TALKER: &[&str] = &["model Answer"];

const UNREVIEWED: &str = "the check and the review say what was not reviewed, and why";
const UNCONFIRMED: &str = "the finding says that nobody looked at it twice";
const BEFORE_THE_CRITIC: &str =
    "files are reviewed side by side, and the last call of one may be the critic's this time";
const NAMED: &str = "a letter that names it waits for who can change it, and can be put back to work";

const fn except(fault: &'static str, places: &'static [&'static str], ends: Ends, why: &'static str) -> Exception {
    Exception { fault, places, ends, why }
}

/// All of them.
pub(super) static EXCEPTIONS: &[Exception] = &[
    except("401 for good", &[], Ends::DeadLetter("GitHub refused the credentials"), NAMED),
    except(
        "401 once",
        AS_APP,
        Ends::DeadLetter("GitHub refused the credentials"),
        "a token is renewed, an assertion was new",
    ),
    except(
        "401 for good",
        GET_CHECKS,
        Ends::Page("neutral: Not reviewed"),
        "a pause that cannot be told is told as given up, and the review that is asked for next takes that letter away",
    ),
    except("403 for good", &[], Ends::DeadLetter("GitHub forbids"), NAMED),
    except("403 for good", GET_CHECKS, Ends::Silence, "who may not read checks says nothing by them"),
    except("403 for good", TOKEN, Ends::DeadLetter("GitHub refused the credentials"), NAMED),
    except("403 for good", REACTION, Ends::Without(" [eyes secondlook[bot]]"), "a reaction is not worth a failure"),
    except(
        "403 for good",
        &["POST /repos/*/*/check-runs"],
        Ends::Without("check "),
        "the review goes on without a check",
    ),
    except("403 for good", END_CHECK, Ends::Page("in_progress"), "the review stands, and nobody may end its check"),
    except("404 for good", &[], Ends::DeadLetter("GitHub knows no"), NAMED),
    except("404 for good", GET_CHECKS, Ends::Page("neutral: Not reviewed"), "as with a refusal"),
    except("404 for good", TOKEN, Ends::DeadLetter("the App was uninstalled there"), NAMED),
    except("404 for good", REACTION, Ends::Without(" [eyes secondlook[bot]]"), "the comment is gone"),
    except("404 for good", ONE_COMMENT, Ends::Silence, "a comment that is gone is not answered"),
    except("404 for good", PERMISSION, Ends::Silence, "who is no collaborator is not heard"),
    except("404 for good", ANSWER, Ends::Silence, "where nothing is left to answer, nothing is said"),
    except("404 for good", END_CHECK, Ends::Page("in_progress"), "the check is gone, as far as we can see"),
    except("unauthorised", REVIEWER, Ends::Page("not reviewed"), UNREVIEWED),
    except("unauthorised", REVIEWER, Ends::Page("Not confirmed"), BEFORE_THE_CRITIC),
    except("unauthorised", CRITIC, Ends::Page("Not confirmed"), UNCONFIRMED),
    except("unauthorised", TALKER, Ends::DeadLetter("refused the credentials"), NAMED),
    except("over budget", REVIEWER, Ends::Page("not reviewed"), UNREVIEWED),
    except("over budget", REVIEWER, Ends::Page("Not confirmed"), BEFORE_THE_CRITIC),
    except("over budget", CRITIC, Ends::Page("Not confirmed"), UNCONFIRMED),
    except("over budget", TALKER, Ends::DeadLetter("the budget is used up"), NAMED),
    except("unavailable for good", REVIEWER, Ends::Page("not reviewed"), UNREVIEWED),
    except("unavailable for good", REVIEWER, Ends::Page("Not confirmed"), BEFORE_THE_CRITIC),
    except("unavailable for good", CRITIC, Ends::Page("Not confirmed"), UNCONFIRMED),
    except("unavailable for good", TALKER, Ends::DeadLetter("the model provider failed"), NAMED),
    except("malformed", TALKER, Ends::Page("Looks good to me!"), "an answer has no form"),
    except("cut", TALKER, Ends::Page("An answer"), "half an answer is better than none"),
    except("empty", TALKER, Ends::Silence, "there is nothing to be written"),
];

impl Exception {
    pub(super) fn is_for(&self, fault: &str, place: &str) -> bool {
        self.fault == fault && (self.places.is_empty() || self.places.contains(&place))
    }

    /// Whether it ended as it says. Only where nobody can end a check run, one may be left.
    pub(super) fn came_true(&self, calm: &Played, played: &Played, place: &str) -> bool {
        if !played.unfinished.is_empty() && !place.contains("check-runs") {
            return false;
        }
        if let Ends::DeadLetter(reason) = self.ends {
            return played.dead.iter().all(|dead| dead.contains(reason)) && !played.dead.is_empty();
        }
        played.dead.is_empty()
            && match self.ends {
                Ends::DeadLetter(_) => false,
                Ends::Page(words) => played.page.contains(words),
                Ends::Without(words) => without(&played.page, words) == without(&calm.page, words),
                Ends::Silence => {
                    let said = |page: &str| without(page, " [eyes secondlook[bot]]");
                    let calm = said(&calm.page);
                    said(&played.page).lines().all(|line| calm.lines().any(|said| said == line))
                }
            }
    }
}

fn without(page: &str, words: &str) -> String {
    let kept = page.lines().filter(|line| !line.starts_with(words));
    kept.map(|line| line.replace(words, "") + "\n").collect()
}
