//! Masks secrets and personal data in text that leaves the process: logs, and prompts for a model.

/// `text` with keys, tokens, e-mail addresses, telephone and identity numbers replaced by `[redacted:kind]`.
pub fn redact(text: &str) -> std::borrow::Cow<'_, str> {
    todo!("{text}")
}
