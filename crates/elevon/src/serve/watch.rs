//! Whether the files that are served are as they were when they were opened.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
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
    /// Its bytes when it was opened, or when what it has grown by was served.
    size: AtomicU64,
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
    pub(super) fn from_file(file: &HostFile) -> Option<Arc<Self>> {
        if file.is_block_device {
            return None;
        }
        let path = file.path.display().to_string();
        let file = file.try_clone().ok()?;
        let size = file.metadata().ok()?.len().into();
        Some(Arc::new(Self { path, file, size }))
    }

    /// Returns how the file differs from what was opened, and the same in words.
    fn look(&self) -> Option<(Difference, String)> {
        let metadata = self.file.metadata().ok()?;
        let (path, size, now) = (&self.path, self.size.load(Relaxed), metadata.len());
        if metadata.nlink() == 0 {
            let words = format!(
                "{path} was deleted: what is in it and what is written to it is lost at the end"
            );
            return Some((Difference::Deleted, words));
        }
        match now.cmp(&size) {
            Ordering::Equal => None,
            Ordering::Less => {
                let words = format!("{path} was cut from {size} bytes to {now}: reads beyond fail");
                Some((Difference::Shorter, words))
            }
            Ordering::Greater => {
                let words =
                    format!("{path} has grown from {size} bytes to {now}: a reload serves it all");
                Some((Difference::Longer, words))
            }
        }
    }

    /// Takes the size that the file has now as the one that is served.
    pub(super) fn take_size(&self) {
        if let Ok(metadata) = self.file.metadata() {
            self.size.fetch_max(metadata.len(), Relaxed);
        }
    }

    /// Returns how the file differs from what was opened, in words.
    pub(super) fn difference(&self) -> Option<String> {
        self.look().map(|(_, words)| words)
    }
}

/// The files of a server by the names of their devices; a reload adds and removes some.
pub(super) type ServedFiles = Arc<Mutex<BTreeMap<String, Arc<ServedFile>>>>;

/// Looks at the files of a server.
pub(super) struct Watch {
    files: ServedFiles,
    /// What was logged last, by the name of the device.
    told: BTreeMap<String, Difference>,
    next: Instant,
}

impl Watch {
    pub(super) fn new(files: ServedFiles) -> Self {
        Self { files, told: BTreeMap::new(), next: Instant::now() + EVERY }
    }

    /// Logs each difference once, if it is time to look at the files.
    pub(super) fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + EVERY;
        let files = self.files.lock().expect("no thread panics with the lock");
        let mut told = BTreeMap::new();
        for (device, file) in files.iter() {
            let Some((difference, words)) = file.look() else { continue };
            if self.told.get(device) != Some(&difference) {
                let message = format!("device {device}: {words}");
                let fields = [("device", Field::Text(device))];
                log(&Record {
                    level: Level::Warning,
                    target: "device",
                    message: &message,
                    fields: &fields,
                });
            }
            told.insert(device.clone(), difference);
        }
        self.told = told;
    }
}
