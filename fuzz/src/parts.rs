//! One input of several texts, so that a fuzzer can change each of them.

/// Larger inputs are not looked at: what grows faster than its input shows long before.
pub const MAX_INPUT: usize = 64 * 1024;

/// Stands alone on the line between two parts.
pub const SEPARATOR: &str = "\n=====\n";

/// The parts of an input, as text; those that are not there are empty. `None` when it is too large to be looked at.
pub fn texts<const N: usize>(data: &[u8]) -> Option<[String; N]> {
    if data.len() > MAX_INPUT {
        return None;
    }
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(N, SEPARATOR);
    Some(std::array::from_fn(|_| parts.next().unwrap_or_default().to_owned()))
}
