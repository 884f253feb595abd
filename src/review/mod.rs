//! The review of a change: draft, second look, anchors, one review on GitHub, and a ledger of what was said.

pub mod anchor;
pub mod coverage;
pub mod finding;
pub mod report;
pub mod suggestion;
pub mod policy;
pub mod file_review;
pub mod change;
pub mod markdown;
