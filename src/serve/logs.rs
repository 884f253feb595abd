//! Log lines: to standard error, as text or JSON, with secrets and personal data masked in every line.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;
use crate::redact::redact;

/// What is logged by default while serving.
pub const SERVING: &str = "info,sqlx=warn,octocrab=warn,hyper=warn,tower=warn";
/// What is logged by default on the command line: nothing that is not an error of the program itself.
pub const QUIET: &str = "off";

/// Starts logging for this process.
///
/// # Errors
/// One sentence, when the filter cannot be read. A second start changes nothing.
pub fn start(filter: &str, format: LogFormat) -> Result<(), String> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        format!(
            "SECONDLOOK_LOG is \"{filter}\", which is no log filter ({error}): write info, or secondlook=debug,info"
        )
    })?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(Masked(io::stderr as fn() -> io::Stderr));
    let started = match format {
        LogFormat::Text => lines.with_ansi(colour()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    // Somebody who embeds the library may have a subscriber already, which then takes the lines.
    drop(started);
    Ok(())
}

/// Colour for a terminal, unless the person does not want it.
fn colour() -> bool {
    anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never
}

/// Makes writers that mask what they are given.
struct Masked<M>(M);

/// Masks each line before it is written. The formatter hands over whole lines, so that nothing is split.
struct MaskedWriter<W>(W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Masked<M> {
    type Writer = MaskedWriter<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        MaskedWriter(self.0.make_writer())
    }
}

impl<W: Write> Write for MaskedWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_secret_never_reaches_the_log() {
        let kept = Kept::default();
        let make = {
            let kept = kept.clone();
            move || kept.clone()
        };
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(Masked(make)).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(token = "ghp_0123456789abcdefghijABCDEFGHIJ012345", "asking");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("asking") && !text.contains("abcdefghij"), "{text}");
    }

    #[test]
    fn a_wrong_filter_is_named() {
        let error = start("a=b=c", LogFormat::Text).unwrap_err();
        assert!(error.contains("\"a=b=c\", which is no log filter"), "{error}");
    }
}
