//! Records to files: pages go as they are, and are decoded when the recording has ended.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::error::CaptureError;
use super::recording::{Recording, Spool};
use super::session::Session;

/// A recording under way. Dropping it ends it without a result.
pub struct Recorder {
    session: Session,
    /// A file for each CPU, in the order of the session.
    spools: Vec<File>,
    folder: PathBuf,
}

impl Recorder {
    /// Records what a session gives to unnamed files in a folder.
    ///
    /// # Errors
    /// A folder in which no file can be made.
    pub fn new(session: Session, folder: &Path) -> Result<Self, CaptureError> {
        let make = |_| {
            tempfile::tempfile_in(folder)
                .map_err(|source| CaptureError::Spool { folder: folder.to_owned(), source })
        };
        let spools = session.cpu_numbers().map(make).collect::<Result<_, _>>()?;
        Ok(Self { session, spools, folder: folder.to_owned() })
    }

    /// The trace instance.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Takes what the kernel has recorded so far. It must be called before a CPU's buffer is full,
    /// or the oldest events are lost.
    ///
    /// # Errors
    /// Of tracefs, and of the files that keep what was recorded.
    pub fn drain(&mut self) -> Result<(), CaptureError> {
        let Self { session, spools, folder } = self;
        session.take(&mut |at, page| {
            let kept = spools[at].write_all(page);
            kept.map_err(|source| CaptureError::Spool { folder: folder.clone(), source })
        })
    }

    /// Ends the recording, takes what is left of it, and removes the trace instance.
    ///
    /// # Errors
    /// As of [`Self::drain`]; the instance is removed all the same.
    pub fn end(mut self) -> Result<Recording, CaptureError> {
        self.session.stop()?;
        self.drain()?;
        let (session, lost) = (&self.session, self.session.lost());
        let (processes, names) = (session.table("saved_tgids"), session.table("saved_cmdlines"));
        let spools = session.cpu_numbers().zip(self.spools);
        let spools = spools.map(|(cpu, pages)| Spool { cpu, pages }).collect();
        let (layout, decoder) = (session.layout, session.decoder.clone());
        self.session.remove()?;
        Ok(Recording::new(spools, layout, decoder, lost, &processes, &names))
    }
}
