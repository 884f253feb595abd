//! The review of a change: draft, second look, anchors, one review on GitHub, and a ledger of what was said.

pub mod finding;
pub mod anchor;
pub mod suggestion;
pub mod coverage;
pub mod report;
pub mod budget;
pub mod policy;
pub mod score;
pub mod merge;
pub mod draft;
pub mod evidence;
pub mod gate;
pub mod critic;
pub mod context;
pub mod reflective;
pub mod file_review;
pub mod change;
pub mod ledger;
pub mod markdown;
pub mod render;
pub mod store;
pub mod publish;
