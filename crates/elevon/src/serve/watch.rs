//! Whether the files that are served are as they were when they were opened.

use std::cmp::Ordering;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use elevon_host::HostFile;
use elevon_serve::{Field, Level, Record};

use super::log::log;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// A regular file that is served.
#[derive(Debug)]
pub(super) struct ServedFile {
    /// The path as the user gave it.
    path: String,
    file: File,
    /// Its bytes when it was opened.
    size: u64,
}

/// How a file differs from what was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    Deleted,
    Shorter,
    Longer,
}

impl ServedFile {
    /// Returns nothing for a block device, and for a file that cannot be looked at.
    pub(super) fn of(file: &HostFile) -> Option<Arc<Self>> {
        if file.is_block_device {
            return None;
        }
        let path = file.path.display().to_string();
        let file = file.try_clone().ok()?;
        let size = file.metadata().ok()?.len();
        Some(Arc::new(Self { path, file, size }))
    }

    /// Returns how the file differs from what was opened, and the same in words.
    fn look(&self) -> Option<(Difference, String)> {
        let metadata = self.file.metadata().ok()?;
        let (path, size, now) = (&self.path, self.size, metadata.len());
        if metadata.nlink() == 0 {
            let words = format!("{path} was deleted: what is in it and what is written to it is lost at the end");
            return Some((Difference::Deleted, words));
        }
        match now.cmp(&size) {
            Ordering::Equal => None,
            Ordering::Less => {
                let words = format!("{path} was cut from {size} bytes to {now}: reads beyond fail");
                Some((Difference::Shorter, words))
            }
            Ordering::Greater => {
                let words = format!("{path} has grown from {size} bytes to {now}: to serve more takes a restart");
                Some((Difference::Longer, words))
            }
        }
    }

    /// Returns how the file differs from what was opened, in words.
    pub(super) fn difference(&self) -> Option<String> {
        self.look().map(|(_, words)| words)
    }
}

/// The files of a server, each with the name of its device and what was logged of it last.
pub(super) struct Watch {
    files: Vec<(String, Arc<ServedFile>, Option<Difference>)>,
    next: Instant,
}

impl Watch {
    pub(super) fn new(files: impl Iterator<Item = (String, Arc<ServedFile>)>) -> Self {
        Self { files: files.map(|(device, file)| (device, file, None)).collect(), next: Instant::now() + EVERY }
    }

    /// Logs each difference once, if it is time to look at the files.
    pub(super) fn look(&mut self) {
        if self.files.is_empty() || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        for (device, file, told) in &mut self.files {
            let found = file.look();
            let difference = found.as_ref().map(|(difference, _)| *difference);
            if let Some((_, words)) = found.filter(|_| difference != *told) {
                let message = format!("device {device}: {words}");
                let fields = [("device", Field::Text(device))];
                log(&Record { level: Level::Warning, target: "device", message: &message, fields: &fields });
            }
            *told = difference;
        }
    }
}
