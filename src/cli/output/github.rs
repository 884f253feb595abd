//! Workflow commands: GitHub Actions shows them as annotations on the changed lines.

use super::{Reviewed, category_words, counts, coverage_line, gaps, one_line, printable, severity_word};
use crate::diff::Side;
use crate::review::finding::Severity;
use crate::review::report::Reported;

/// One command per finding and per file that was not reviewed, then a line that says what was reviewed.
pub fn render(reviewed: &Reviewed<'_>) -> String {
    let report = reviewed.report;
    let mut text: String = report.findings.iter().map(annotation).collect();
    for (path, reason) in gaps(&report.coverage) {
        text.push_str(&command("warning", &[("file", path.into()), ("title", "Not reviewed".into())], reason));
    }
    let more = match report.capped.is_empty() {
        true => String::new(),
        false => format!("; not shown: {}", counts(&report.capped)),
    };
    text.push_str(&command(
        "notice",
        &[("title", "secondlook".into())],
        &format!("{}{more}", coverage_line(&report.coverage)),
    ));
    text
}

fn annotation(reported: &Reported) -> String {
    let finding = &reported.finding;
    let level = match finding.severity {
        Severity::Critical | Severity::Major => "error",
        Severity::Minor => "warning",
        Severity::Nit => "notice",
    };
    let mut properties = vec![("file", finding.path.clone())];
    // An annotation stands on the head's lines; for removed lines only the file can be named.
    if let Ok(anchor) = &reported.place
        && anchor.side == Side::Right
    {
        properties.push(("line", anchor.start_line.to_string()));
        properties.push(("endLine", anchor.line.to_string()));
    }
    let title = one_line(&finding.title);
    let words = (severity_word(finding.severity), category_words(finding.category));
    properties.push(("title", format!("{title} ({}, {})", words.0, words.1)));
    command(level, &properties, &finding.body)
}

/// `::level key=value,…::message`, escaped as the runner unescapes it: `%`, CR and LF everywhere, `:` and `,` in
/// properties too.
fn command(level: &str, properties: &[(&str, String)], message: &str) -> String {
    let data = |text: &str| printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let properties: Vec<String> = properties.iter().map(|(key, value)| format!("{key}={}", property(value))).collect();
    format!("::{level} {}::{}\n", properties.join(","), data(message))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::json::tests::sample;
    use super::*;

    #[test]
    fn findings_become_annotations() {
        sample(|reviewed| {
            assert_snapshot!(render(reviewed), @r##"
        ::error file=src/a b.rs,line=11,endLine=11,title=Panics when the key%2C or 100%25 of keys%2C are missing (critical%2C security)::`get` returns `None`.%0AUse `if let`.
        ::warning file=src/a b.rs,title=Panics when the key%2C or 100%25 of keys%2C are missing (minor%2C security)::`get` returns `None`.%0AUse `if let`.
        ::notice file=src/a b.rs,title=Panics when the key%2C or 100%25 of keys%2C are missing (nit%2C security)::`get` returns `None`.%0AUse `if let`.
        ::warning file=b.rs,title=Not reviewed::the model failed
        ::notice title=secondlook::1 file reviewed, 1 excluded, 1 not reviewed; not shown: 1 nit
        "##)
        });
    }

    #[test]
    fn a_message_cannot_start_a_command_of_its_own() {
        let text = command("error", &[("file", "a,line=1:x".into())], "b\n::add-mask::c\r\n%0A");
        assert_eq!(text, "::error file=a%2Cline=1%3Ax::b%0A::add-mask::c%0A%250A\n");
    }
}
