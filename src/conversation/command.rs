//! What a comment asks of us: a command, a question, or nothing. Pure.
//!
//! A command stands at the start of a line, after `/secondlook` or a mention of the App. Lines that are quoted, code,
//! or hidden in HTML comments are somebody else's words and are passed over.

mod words;

use words::spoken_lines;

/// Characters of an argument or question that are kept.
const MAX_ARGUMENT_CHARS: usize = 8_000;

/// Which part of a pull request is to be reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// What is new since the last review.
    New,
    /// Everything.
    Full,
    /// One file or folder.
    Path(String),
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Review again.
    Review(Scope),
    /// Answer a question.
    Ask(String),
    /// Explain the finding of this thread.
    Explain,
    /// Mend the finding of this thread.
    Fix,
    /// Resolve this thread.
    Resolve,
    /// Never raise this finding again.
    Ignore,
    /// Review no more pushes by itself.
    Pause,
    /// Review pushes again.
    Resume,
    /// Use another strategy.
    Strategy(String),
    /// Keep a note.
    Remember(String),
    /// Drop a note.
    Forget(String),
    /// List the notes.
    Notes,
    /// Let a waiting action happen.
    Approve(String),
    /// Do not let it happen.
    Reject(String),
    /// Summarise the change.
    Walkthrough,
    /// Say what there is.
    Help,
    /// None of these; the word that was used.
    Unknown(String),
}

/// What somebody must be to use a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The author of the pull request, or somebody with triage or more.
    Ask,
    /// Somebody with write permission or more.
    Change,
}

/// What a comment says to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addressed {
    /// A command.
    Command(Command),
    /// A question, or any other words to us.
    Question(String),
}

impl Command {
    /// What somebody must be to use it. Answers and reviews change nothing that was decided; the rest does.
    pub fn need(&self) -> Need {
        match self {
            Self::Review(_)
            | Self::Ask(_)
            | Self::Explain
            | Self::Notes
            | Self::Walkthrough
            | Self::Help
            | Self::Unknown(_) => Need::Ask,
            _ => Need::Change,
        }
    }

    /// The word people type.
    pub fn word(&self) -> &str {
        match self {
            Self::Review(_) => "review",
            Self::Ask(_) => "ask",
            Self::Explain => "explain",
            Self::Fix => "fix",
            Self::Resolve => "resolve",
            Self::Ignore => "ignore",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Strategy(_) => "strategy",
            Self::Remember(_) => "remember",
            Self::Forget(_) => "forget",
            Self::Notes => "notes",
            Self::Approve(_) => "approve",
            Self::Reject(_) => "reject",
            Self::Walkthrough => "walkthrough",
            Self::Help => "help",
            Self::Unknown(word) => word,
        }
    }
}

/// What a comment says to the App called `slug`; `None` when it does not address us. The first line that does counts.
pub fn parse(comment: &str, slug: &str) -> Option<Addressed> {
    let lines = spoken_lines(comment);
    for (index, line) in lines.iter().enumerate() {
        let line = line.trim();
        if let Some(rest) = after_slash(line) {
            return Some(Addressed::Command(command(rest, &below(&lines, index)).unwrap_or_else(|| unknown(rest))));
        }
        if let Some(rest) = after_mention(line, slug) {
            let said = with_below(rest, &below(&lines, index));
            return Some(match command_alone(rest, &below(&lines, index)) {
                Some(command) => Addressed::Command(command),
                None if said.is_empty() => Addressed::Command(Command::Help),
                None => Addressed::Question(said),
            });
        }
    }
    let mentioned = lines.iter().any(|line| {
        let outside_code: Vec<&str> = line.split('`').step_by(2).collect();
        mention_at(&outside_code.join("`"), slug).is_some()
    });
    mentioned.then(|| Addressed::Question(clip(lines.join("\n").trim())))
}

/// The command that `rest` begins with, arguments and all.
fn command(rest: &str, below: &str) -> Option<Command> {
    let (word, argument) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let argument = argument.trim();
    let text = || with_below(argument, below);
    let named = |make: fn(String) -> Command| (!argument.is_empty()).then(|| make(clip(argument)));
    match word.trim_end_matches(['.', '!', ':', ',']).to_ascii_lowercase().as_str() {
        "" | "help" => Some(Command::Help),
        "review" => Some(Command::Review(scope(argument))),
        "ask" => Some(if text().is_empty() { Command::Help } else { Command::Ask(text()) }),
        "explain" if argument.is_empty() => Some(Command::Explain),
        "explain" => Some(Command::Ask(text())),
        "fix" => Some(Command::Fix),
        "resolve" => Some(Command::Resolve),
        "ignore" => Some(Command::Ignore),
        "pause" => Some(Command::Pause),
        "resume" => Some(Command::Resume),
        "strategy" => named(Command::Strategy),
        "remember" => (!text().is_empty()).then(|| Command::Remember(text())),
        "forget" => named(Command::Forget),
        "notes" => Some(Command::Notes),
        "approve" => named(Command::Approve),
        "reject" => named(Command::Reject),
        "walkthrough" => Some(Command::Walkthrough),
        _ => None,
    }
}

/// Like [`command`], after a mention: there people also just talk, so a command must be the whole line.
fn command_alone(rest: &str, below: &str) -> Option<Command> {
    let words = rest.split_whitespace().count();
    let command = command(rest, below)?;
    let alone = match &command {
        Command::Help => words == 1,
        Command::Ask(_) | Command::Remember(_) => true,
        Command::Review(Scope::Path(path)) => words == 2 && (path.contains(['/', '.']) || path.contains('*')),
        Command::Review(Scope::New) => words == 1,
        Command::Review(Scope::Full) | Command::Strategy(_) | Command::Approve(_) | Command::Reject(_) => words == 2,
        Command::Forget(_) => true,
        _ => words == 1,
    };
    alone.then_some(command)
}

fn scope(argument: &str) -> Scope {
    match argument.trim_end_matches(['.', '!']) {
        "" => Scope::New,
        word if word.eq_ignore_ascii_case("full") => Scope::Full,
        _ => Scope::Path(clip(argument.trim_matches('`'))),
    }
}

fn unknown(rest: &str) -> Command {
    Command::Unknown(rest.split_whitespace().next().unwrap_or_default().chars().take(40).collect())
}

fn after_slash(line: &str) -> Option<&str> {
    const SLASH: &str = "/secondlook";
    let start = line.get(..SLASH.len())?;
    let rest = line.get(SLASH.len()..)?;
    let ended = rest.is_empty() || rest.starts_with(char::is_whitespace);
    (start.eq_ignore_ascii_case(SLASH) && ended).then(|| rest.trim())
}

fn after_mention<'l>(line: &'l str, slug: &str) -> Option<&'l str> {
    let (start, end) = mention_at(line, slug)?;
    (start == 0).then(|| line.get(end..).unwrap_or_default().trim_start_matches([',', ':']).trim())
}

/// Where a line mentions the App, by `@slug` or `@slug[bot]`, as a whole word.
fn mention_at(line: &str, slug: &str) -> Option<(usize, usize)> {
    let lower = line.to_ascii_lowercase();
    let mention = format!("@{}", slug.to_ascii_lowercase());
    let mut from = 0;
    while let Some(at) = lower.get(from..)?.find(&mention) {
        let start = from + at;
        let mut end = start + mention.len();
        if lower.get(end..).is_some_and(|rest| rest.starts_with("[bot]")) {
            end += "[bot]".len();
        }
        let before = lower.get(..start).and_then(|text| text.chars().next_back());
        let after = lower.get(end..).and_then(|text| text.chars().next());
        let part_of_name = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !part_of_name(before) && !part_of_name(after) && after != Some('/') {
            return Some((start, end));
        }
        from = end;
    }
    None
}

fn below(lines: &[String], index: usize) -> String {
    lines.get(index + 1..).unwrap_or_default().join("\n").trim().to_owned()
}

fn with_below(text: &str, below: &str) -> String {
    clip(format!("{text}\n{below}").trim())
}

fn clip(text: &str) -> String {
    text.chars().take(MAX_ARGUMENT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn command_of(comment: &str) -> Option<Command> {
        match parse(comment, "second-look") {
            Some(Addressed::Command(command)) => Some(command),
            _ => None,
        }
    }

    #[rstest]
    #[case("/secondlook review", Command::Review(Scope::New))]
    #[case("  /SecondLook Review FULL", Command::Review(Scope::Full))]
    #[case("/secondlook review src/a b.rs", Command::Review(Scope::Path("src/a b.rs".into())))]
    #[case("@second-look review `src/a.rs`", Command::Review(Scope::Path("src/a.rs".into())))]
    #[case("@second-look[bot], review.", Command::Review(Scope::New))]
    #[case("Thanks!\n\n@Second-Look pause", Command::Pause)]
    #[case("/secondlook", Command::Help)]
    #[case("@second-look", Command::Help)]
    #[case("/secondlook ask why\nis this so?", Command::Ask("why\nis this so?".into()))]
    #[case("/secondlook explain", Command::Explain)]
    #[case("/secondlook explain the lock", Command::Ask("the lock".into()))]
    #[case("/secondlook fix", Command::Fix)]
    #[case("/secondlook resolve", Command::Resolve)]
    #[case("/secondlook ignore", Command::Ignore)]
    #[case("/secondlook resume please", Command::Resume)]
    #[case("/secondlook strategy lats", Command::Strategy("lats".into()))]
    #[case("/secondlook remember tests may unwrap", Command::Remember("tests may unwrap".into()))]
    #[case("/secondlook forget 3", Command::Forget("3".into()))]
    #[case("/secondlook notes", Command::Notes)]
    #[case("/secondlook approve a1", Command::Approve("a1".into()))]
    #[case("/secondlook reject a1", Command::Reject("a1".into()))]
    #[case("/secondlook walkthrough", Command::Walkthrough)]
    #[case("/secondlook dance", Command::Unknown("dance".into()))]
    #[case("/secondlook approve", Command::Unknown("approve".into()))]
    fn commands(#[case] comment: &str, #[case] expected: Command) {
        assert_eq!(command_of(comment), Some(expected));
    }

    #[rstest]
    #[case("> /secondlook review")]
    #[case("```\n/secondlook review\n```")]
    #[case("~~~sh\n/secondlook review\n")]
    #[case("    /secondlook review")]
    #[case("`/secondlook review`")]
    #[case("`a\n/secondlook review\n`")]
    #[case("<!-- \n/secondlook review\n-->")]
    #[case("<!-- unclosed\n/secondlook review")]
    #[case("see /secondlook review")]
    #[case("/secondlookreview")]
    #[case("/secondlook-bot review")]
    #[case("@second-looker review")]
    #[case("x@second-look review")]
    #[case("@second-look/team review")]
    #[case("see `the @second-look review` here")]
    #[case("nothing to us")]
    #[case("")]
    fn other_peoples_words_are_not_commands(#[case] comment: &str) {
        assert_eq!(parse(comment, "second-look"), None);
    }

    #[rstest]
    #[case("@second-look review this function, please", "review this function, please")]
    #[case("@second-look fix your attitude", "fix your attitude")]
    #[case("What does @second-look think?", "What does @second-look think?")]
    #[case("@second-look why?\n> quoted\nand more", "why?\nand more")]
    fn talk_that_mentions_us_is_a_question(#[case] comment: &str, #[case] question: &str) {
        assert_eq!(parse(comment, "second-look"), Some(Addressed::Question(question.into())));
    }

    #[test]
    fn the_first_command_counts() {
        assert_eq!(command_of("> @second-look pause\n\n/secondlook resume\n/secondlook pause"), Some(Command::Resume));
    }

    #[test]
    fn what_changes_state_needs_more() {
        assert_eq!(Command::Review(Scope::Full).need(), Need::Ask);
        assert_eq!(Command::Pause.need(), Need::Change);
        assert_eq!(Command::Remember(String::new()).need(), Need::Change);
        assert_eq!(Command::Unknown(String::new()).need(), Need::Ask);
    }

    proptest! {
        #[test]
        fn any_comment_can_be_read(parts in prop::collection::vec(prop::sample::select(vec![
            "/secondlook", "@second-look", "[bot]", " ", "\n", "`", "```", "~~~", ">", "<!--", "-->", "review", "é", "    ", "\t", "\r\n",
        ]), 0..30)) {
            let comment = parts.concat();
            if let Some(Addressed::Question(question)) = parse(&comment, "second-look") {
                prop_assert!(question.chars().count() <= MAX_ARGUMENT_CHARS);
            }
        }
    }
}
