//! Receives deliveries: verify the raw bytes, parse, record and enqueue in one transaction, 202.

pub mod event;
pub mod signature;
pub mod store;
