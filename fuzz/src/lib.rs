//! What must hold for any bytes an outsider can send us, one function for each way in.
//!
//! Each `check` takes raw bytes and panics when a property is broken. The fuzz targets throw bytes at them without end;
//! the test suite runs them over the inputs that once broke something, and over a few seeds.

pub mod comment;
pub mod configuration;
pub mod effects;
pub mod parts;
pub mod patch;
pub mod reply;
pub mod webhook;
