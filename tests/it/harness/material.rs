//! Real material that lies beside the project and may not be copied into it.

use std::path::{Path, PathBuf};

/// The directory or file `path` of the shared material: in the directory that `SECONDLOOK_SHARED` names, or in
/// `../shared`. When it is not there, says so on stderr and returns `None`: what it would prove again is also proved by
/// cases in the project.
pub(crate) fn material(path: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let found = std::env::var_os("SECONDLOOK_SHARED")
        .map(PathBuf::from)
        .into_iter()
        .chain([beside])
        .map(|root| root.join(path))
        .find(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: {path} is neither in $SECONDLOOK_SHARED nor in ../shared");
    }
    found
}
