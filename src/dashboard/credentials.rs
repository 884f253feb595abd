//! The App's credentials as set-up keeps them: one file that only this user may read.

use std::io::{self, Write};
use std::path::Path;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::ids;

/// An App that was created by set-up.
#[derive(Debug, Clone)]
pub struct StoredApp {
    /// App id.
    pub app_id: u64,
    /// URL name.
    pub slug: String,
    /// RSA key, PEM.
    pub private_key: SecretString,
    /// What deliveries are signed with.
    pub webhook_secret: SecretString,
    /// OAuth client id, for people who sign in.
    pub client_id: String,
    /// OAuth client secret.
    pub client_secret: SecretString,
    /// The App's page on GitHub.
    pub html_url: String,
}

/// The file's form. Apart from [`StoredApp`], so that a secret is serialised here and nowhere else.
#[derive(Serialize, Deserialize)]
struct OnDisk {
    app_id: u64,
    slug: String,
    private_key: String,
    webhook_secret: String,
    client_id: String,
    client_secret: String,
    html_url: String,
}

/// Reads the file; `None` when there is none.
///
/// # Errors
/// When it cannot be read or is not what [`store`] wrote.
pub fn load(path: &Path) -> io::Result<Option<StoredApp>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // The parser's own message may repeat a piece of the text, so it is not passed on.
    let app: OnDisk = serde_json::from_str(&text)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("line {} is damaged", error.line())))?;
    Ok(Some(StoredApp {
        app_id: app.app_id,
        slug: app.slug,
        private_key: app.private_key.into(),
        webhook_secret: app.webhook_secret.into(),
        client_id: app.client_id,
        client_secret: app.client_secret.into(),
        html_url: app.html_url,
    }))
}

/// Writes the file whole or not at all, readable by this user only; makes its directory when it is missing.
///
/// # Errors
/// When the directory or the file cannot be written.
pub fn store(path: &Path, app: &StoredApp) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    create_private_directory(directory)?;
    let on_disk = OnDisk {
        app_id: app.app_id,
        slug: app.slug.clone(),
        private_key: app.private_key.expose_secret().to_owned(),
        webhook_secret: app.webhook_secret.expose_secret().to_owned(),
        client_id: app.client_id.clone(),
        client_secret: app.client_secret.expose_secret().to_owned(),
        html_url: app.html_url.clone(),
    };
    let text = serde_json::to_vec_pretty(&on_disk)?;
    let beside = directory.join(format!(".app-{}.json", ids::new_id()));
    let written = write_private(&beside, &text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // The rename may have failed after the file was written; nothing half-done stays behind.
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Makes a directory that only this user may enter; one that exists stays as it is.
///
/// # Errors
/// When it cannot be made.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> StoredApp {
        StoredApp {
            app_id: 5,
            slug: "look".into(),
            private_key: "pem\nlines".into(),
            webhook_secret: "hook".into(),
            client_id: "Iv1".into(),
            client_secret: "client".into(),
            html_url: "https://github.com/apps/look".into(),
        }
    }

    #[test]
    fn what_is_stored_is_read_again_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("deep/app.json");
        assert!(load(&file).unwrap().is_none());
        store(&file, &app()).unwrap();
        store(&file, &StoredApp { app_id: 6, ..app() }).unwrap();
        let read = load(&file).unwrap().unwrap();
        assert_eq!((read.app_id, read.private_key.expose_secret()), (6, "pem\nlines"));
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_that_repeats_nothing_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("app.json");
        std::fs::write(&file, "{\"app_id\": \"hush\"}").unwrap();
        let error = load(&file).unwrap_err().to_string();
        assert!(error.contains("line 1 is damaged") && !error.contains("hush"), "{error}");
    }
}
