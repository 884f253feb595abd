//! What is known of code without a model. Pure.

pub mod language;
pub mod outline;
pub mod rules;
pub mod syntax;
