//! The pages people see in a browser: what state the server is in, and set-up.

pub mod credentials;
