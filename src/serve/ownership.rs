//! One server for each SQLite database.
//!
//! SQLite carries one instance. Who holds the lock knows that no other process works on the queue, so what a killed
//! predecessor left is taken over at once instead of when its leases run out. The operating system gives the lock back
//! however the process ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::ServeError;

/// Holds the lock for as long as it lives.
#[derive(Debug)]
pub struct Ownership {
    _lock: File,
}

/// Takes the SQLite database behind `url` for this process; `None` for PostgreSQL, which many instances share.
///
/// # Errors
/// When another server has it, or the lock file beside it cannot be made.
pub fn take(url: &str) -> Result<Option<Ownership>, ServeError> {
    let Some(path) = url.strip_prefix("sqlite:") else { return Ok(None) };
    let path = path.trim_start_matches("//").split('?').next().unwrap_or_default();
    let place = format!("{path}.lock");
    if let Some(directory) = Path::new(&place).parent() {
        // Where this fails, opening says so better.
        let _ = std::fs::create_dir_all(directory);
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&place);
    let file = file.map_err(|error| {
        ServeError(format!("cannot make {place} ({error}): make its directory writable, or choose another database"))
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Ownership { _lock: file })),
        Err(TryLockError::WouldBlock) => Err(ServeError(format!(
            "another secondlook is running on {path}: stop it, or give this one a SECONDLOOK_DATA_DIR of its own \
             (several instances share work through PostgreSQL)"
        ))),
        Err(TryLockError::Error(error)) => {
            Err(ServeError(format!("cannot lock {place} ({error}): put SECONDLOOK_DATA_DIR on a local disk")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_has_one_owner_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("a.db").display());
        let first = take(&url).unwrap();
        assert!(first.is_some());
        assert!(take(&url).unwrap_err().0.contains("another secondlook is running"));
        drop(first);
        assert!(take(&url).unwrap().is_some());
    }

    #[test]
    fn postgresql_is_shared() {
        assert!(take("postgres://localhost/secondlook").unwrap().is_none());
    }
}
