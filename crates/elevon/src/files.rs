//! The files that one command reads and writes: nothing that it writes may be something that it
//! reads, or written twice.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output::{folder_of, target_of};

/// The files of a command so far.
#[derive(Debug, Default)]
pub(crate) struct Files {
    named: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    /// Option and path, as in `--html page.html`.
    what: String,
    identity: Identity,
    use_: Use,
}

/// What the command does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It reads text from it.
    Input,
    /// It is the device.
    Device,
    /// A report or trace goes there.
    Output,
}

/// Two names with the same identity are one file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    Existing(u64, u64),
    /// One that does not exist yet: where it will be.
    New(PathBuf),
}

impl Files {
    /// The command reads text from this file. `what` names option and path.
    pub(crate) fn add_input(&mut self, what: impl Into<String>, path: &Path) -> Result<(), Failure> {
        self.add(what.into(), path, Use::Input)
    }

    /// The command uses this file as its device.
    pub(crate) fn add_device(&mut self, path: &Path) -> Result<(), Failure> {
        self.add(format!("--device {}", path.display()), path, Use::Device)
    }

    /// The command will write this file.
    pub(crate) fn add_output(&mut self, what: impl Into<String>, path: &Path) -> Result<(), Failure> {
        self.add(what.into(), path, Use::Output)
    }

    /// What the shell sent stdout to gets the report.
    pub(crate) fn add_stdout(&mut self) -> Result<(), Failure> {
        self.add_output("stdout", Path::new("/dev/stdout"))
    }

    fn add(&mut self, what: String, path: &Path, use_: Use) -> Result<(), Failure> {
        let Some(identity) = identity_of(path) else { return Ok(()) };
        let clash = self.named.iter().find(|other| other.identity == identity && clashes(other.use_, use_));
        if let Some(other) = clash {
            return Err(Failure::input(format!("{what}: {}", why(other, use_))));
        }
        self.named.push(Named { what, identity, use_ });
        Ok(())
    }
}

/// Whether a file cannot have both uses.
const fn clashes(first: Use, second: Use) -> bool {
    !matches!((first, second), (Use::Input, Use::Input) | (Use::Device, Use::Device))
}

fn why(other: &Named, use_: Use) -> String {
    let what = &other.what;
    match (other.use_, use_) {
        (Use::Output, Use::Output) => format!("is the same file as {what}; give each its own"),
        (_, Use::Output) => format!("is the same file as {what}, which it would overwrite; name another"),
        (Use::Output, _) => format!("is the same file as {what}, which would overwrite it; name another"),
        (_, Use::Device | Use::Input) => format!("is the same file as {what}; a device is no text to be read"),
    }
}

/// `None` for what can be read or written by several: terminals, pipes, `/dev/null`.
fn identity_of(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Some(Identity::Existing(metadata.dev(), metadata.ino())),
        Ok(metadata) if metadata.file_type().is_block_device() => Some(Identity::Existing(0, metadata.rdev())),
        Ok(_) => None,
        Err(_) => {
            let target = target_of(path).ok()?;
            let folder = fs::canonicalize(folder_of(&target)).ok()?;
            Some(Identity::New(folder.join(target.file_name()?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_has_one_use_whatever_its_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("job"), "").expect("written");
        fs::hard_link(at("job"), at("hard")).expect("a link");
        std::os::unix::fs::symlink("job", at("soft")).expect("a link");
        for name in ["job", "hard", "soft"] {
            let mut files = Files::default();
            files.add_input("JOB job", &at("job")).expect("the first");
            files.add_input("JOB job", &at("job")).expect("two may read it");
            for (add, words) in [
                (files.add_output("--html x", &at(name)), "--html x: is the same file as JOB job, which it would"),
                (files.add_device(&at(name)), "is the same file as JOB job; a device"),
            ] {
                let error = add.expect_err(name).to_string();
                assert!(error.contains(words) && error.lines().count() == 1, "{error}");
            }
            files.add_output("--html x", &at("other")).expect("another file");
        }
    }

    #[test]
    fn two_outputs_that_do_not_exist_yet_are_one_by_their_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).expect("a folder");
        std::os::unix::fs::symlink("new", at("link")).expect("a link");
        for name in ["new", "sub/../new", "link"] {
            let mut files = Files::default();
            files.add_output("--trace new", &at("new")).expect("the first");
            let error = files.add_output("--html new", &at(name)).expect_err(name).to_string();
            assert!(error.contains("--html new: is the same file as --trace new; give each its own"), "{error}");
        }
        let mut files = Files::default();
        for _ in 0..2 {
            files.add_output("--html /dev/null", Path::new("/dev/null")).expect("anyone may write there");
        }
    }
}
