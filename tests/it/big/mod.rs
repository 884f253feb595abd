//! Large and odd pull requests: everything is reviewed or named, on its exact lines, within bounds that do not depend on
//! what somebody pushed.

mod content;
mod memory;
mod names;
mod process;
mod pulls;
mod range;
mod size;
