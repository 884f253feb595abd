//! Identifiers that secondlook makes itself.

/// A new id that sorts by the time it was made (UUID version 7), for rows, runs and jobs.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}
