//! What people see on GitHub, from the first webhook on: whole pages as snapshots, each on both databases.

mod conversation;
mod faults;
mod hostile;
mod lifecycle;
mod push;
mod review;
mod together;

/// A small change with one fault in it, and the fault.
pub(crate) const CACHE: &str = "
    //- src/cache.rs
     use std::collections::HashMap;

     pub fn look_up(map: &HashMap<String, u32>, key: &str) -> u32 {
    -    0
    +    *map.get(key).unwrap()
     }
";
pub(crate) const CACHE_FAULT: &str = "*map.get(key).unwrap()";
