//! Hidden markers on the last line of what we write, so that it is found again after a doubtful answer. Pure.
//!
//! A marker alone proves nothing: anybody can write one. Whoever reads one also compares the author with us.

const START: &str = "<!-- secondlook:";
const END: &str = " -->";

/// The marker of a line comment: the identity of its finding.
pub fn finding(fingerprint: &str) -> String {
    format!("{START}finding {fingerprint}{END}")
}

/// The marker of a review: what it was made for, and the plan it carries out.
pub fn review(head: &str, base: &str, part: usize, of: usize, plan: &str) -> String {
    format!("{START}review head={head} base={base} part={part}/{of} plan={plan}{END}")
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
        assert_eq!(read_plan(&format!("x\n{}", review("h", "b", 1, 2, "p1"))), Some("p1"));
        assert_eq!(read_reply(&format!("x\r\n{}\r\n", reply(7))), Some(7));
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
