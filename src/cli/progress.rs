//! Shows on standard error how far a review is: only to a person at a terminal, and gone when it ends.

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::review::change::{Progress, ProgressSink};

/// The display. Dropped, it leaves nothing behind.
pub struct Display {
    bar: ProgressBar,
}

impl Display {
    /// A display over `files` files; hidden when standard error is no terminal.
    pub fn new(files: usize) -> Self {
        let bar = ProgressBar::with_draw_target(
            Some(u64::try_from(files).unwrap_or(u64::MAX)),
            if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} files {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        Self { bar }
    }

    /// What the review tells, shown here.
    pub fn sink(&self) -> ProgressSink {
        let bar = self.bar.clone();
        let working: Mutex<Vec<String>> = Mutex::default();
        Arc::new(move |progress| {
            let mut working = working.lock().unwrap_or_else(PoisonError::into_inner);
            match progress {
                Progress::Started(path) => working.push(super::output::one_line(&path)),
                Progress::Finished(path) => {
                    let path = super::output::one_line(&path);
                    working.retain(|known| *known != path);
                    bar.inc(1);
                }
            }
            bar.set_message(working.join(", "));
        })
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
