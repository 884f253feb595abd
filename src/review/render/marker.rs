//! Hidden markers on the last line of what we write, so that it is found again after a doubtful answer. Pure.
//!
//! A marker alone proves nothing: anybody can write one. Whoever reads one also compares the author with us.

const START: &str = "<!-- secondlook:";
const END: &str = " -->";
/// Identities in one marker: as many as a round may say, and far below the room that a body leaves.
const MAX_SAID: usize = 100;
/// Parts of one round; there are never more than a few.
const MAX_PARTS: usize = 1_000;

/// What a review's marker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewMarker<'b> {
    /// The head it was made for.
    pub head: &'b str,
    /// The base it was made for.
    pub base: &'b str,
    /// Which part of the round, from 1.
    pub part: usize,
    /// How many parts the round has.
    pub of: usize,
    /// The plan it carries out.
    pub plan: &'b str,
    /// Identities of the findings that its body says.
    pub said: Vec<&'b str>,
}

/// The marker of a line comment: the identity of its finding.
pub fn finding(fingerprint: &str) -> String {
    format!("{START}finding {fingerprint}{END}")
}

/// The marker of a review: what it was made for, the plan it carries out, and the identities of the findings that its
/// body says, since those have no comment with a marker of its own.
pub fn review(head: &str, base: &str, part: usize, of: usize, plan: &str, said: &[&str]) -> String {
    let said: Vec<&str> = said.iter().take(MAX_SAID).copied().collect();
    let said = if said.is_empty() { String::new() } else { format!(" said={}", said.join(",")) };
    format!("{START}review head={head} base={base} part={part}/{of} plan={plan}{said}{END}")
}

/// The marker of an answer: the comment it answers.
pub fn reply(comment: u64) -> String {
    format!("{START}reply to={comment}{END}")
}

/// The fingerprint in a line comment's marker.
pub fn read_finding(body: &str) -> Option<&str> {
    content(body)?.strip_prefix("finding ").map(str::trim).filter(|fingerprint| !fingerprint.is_empty())
}

/// The plan in a review's marker.
pub fn read_plan(body: &str) -> Option<&str> {
    content(body)?.strip_prefix("review ")?.split(' ').find_map(|word| word.strip_prefix("plan="))
}

/// All of a review's marker.
pub fn read_review(body: &str) -> Option<ReviewMarker<'_>> {
    let words: Vec<(&str, &str)> =
        content(body)?.strip_prefix("review ")?.split(' ').filter_map(|word| word.split_once('=')).collect();
    let word = |name: &str| words.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let (part, of) = word("part")?.split_once('/')?;
    Some(ReviewMarker {
        head: word("head")?,
        base: word("base")?,
        part: part.parse().ok()?,
        of: of.parse().ok().filter(|of| (1..=MAX_PARTS).contains(of))?,
        plan: word("plan").filter(|plan| !plan.is_empty())?,
        said: word("said").map(|said| said.split(',').collect()).unwrap_or_default(),
    })
}

/// The answered comment in a reply's marker.
pub fn read_reply(body: &str) -> Option<u64> {
    content(body)?.strip_prefix("reply to=")?.trim().parse().ok()
}

fn content(body: &str) -> Option<&str> {
    body.trim_end().lines().next_back()?.trim().strip_prefix(START)?.strip_suffix(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_read_back() {
        assert_eq!(read_finding(&format!("x\n\n{}\n", finding("ab12"))), Some("ab12"));
        assert_eq!(read_plan(&format!("x\n{}", review("h", "b", 1, 2, "p1", &[]))), Some("p1"));
        assert_eq!(read_reply(&format!("x\r\n{}\r\n", reply(7))), Some(7));
    }

    #[test]
    fn all_of_a_review_s_marker_is_read_back() {
        let text = format!("x\n{}", review("h", "b", 1, 2, "p1", &["aa", "bb-2"]));
        let read = ReviewMarker { head: "h", base: "b", part: 1, of: 2, plan: "p1", said: vec!["aa", "bb-2"] };
        assert_eq!(read_review(&text), Some(read));
        assert_eq!(read_plan(&text), Some("p1"));
        assert!(read_review(&review("h", "b", 1, 1, "p1", &[])).unwrap().said.is_empty());
        for wrong in ["part=1", "part=1/0", "part=x/2", "part=1/99999999999999999999"] {
            assert_eq!(read_review(&format!("<!-- secondlook:review head=h base=b {wrong} plan=p -->")), None);
        }
    }

    #[test]
    fn only_the_last_line_counts() {
        let quoted = format!("{}\nand something below", finding("ab12"));
        assert_eq!(read_finding(&quoted), None);
        assert_eq!(read_plan(&finding("ab12")), None);
        assert_eq!(read_reply("<!-- secondlook:reply to=x -->"), None);
        assert_eq!(read_finding(""), None);
    }
}
