//! Identifiers that secondlook makes itself.

/// A new id that sorts by the time it was made (UUID version 7), for rows, runs and jobs.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().simple().to_string()
}

/// Text that nobody can guess (122 bits from the operating system, hexadecimal), for tokens and states that are used up.
pub fn secret() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
