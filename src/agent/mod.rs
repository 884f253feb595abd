//! Agents as graphs: nodes act, edges decide, and every node ends in a saved checkpoint.

pub mod checkpoint;
pub mod graph;
pub mod hook;
pub mod limits;
pub mod react;
pub mod spending;
pub mod strategy;
