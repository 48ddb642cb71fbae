//! Checks the files that one command reads and writes: no output may be an input, and no file may
//! be written twice.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::{Clash, Failure, FileError};
use crate::output::{folder_of, target_of};

/// The files of a command that were added so far.
#[derive(Debug, Default)]
pub struct Files {
    named: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    /// Option and path, such as `--html page.html`.
    what: String,
    identity: Identity,
    use_: Use,
}

/// How the command uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It reads text from the file.
    Input,
    /// The file is the device.
    Device,
    /// It writes a report or trace to the file.
    Output,
}

/// Identity of a file; two names with the same identity are the same file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode of an existing file.
    Existing(u64, u64),
    /// Path of a file that does not exist yet.
    New(PathBuf),
}

impl Files {
    /// Adds a file from which the command reads text. `what` names option and path.
    ///
    /// # Errors
    /// Another use of the same file excludes this one.
    pub fn add_input(&mut self, what: impl Into<String>, path: &Path) -> Result<(), Failure> {
        self.add(what.into(), path, Use::Input)
    }

    /// Adds a file that is the device of the command.
    pub(crate) fn add_device(&mut self, path: &Path) -> Result<(), Failure> {
        self.add(format!("--device {}", path.display()), path, Use::Device)
    }

    /// Adds a file that the command will write.
    ///
    /// # Errors
    /// Another use of the same file excludes this one.
    pub fn add_output(&mut self, what: impl Into<String>, path: &Path) -> Result<(), Failure> {
        self.add(what.into(), path, Use::Output)
    }

    /// Adds the file to which the shell redirected stdout.
    ///
    /// # Errors
    /// Another use of the same file excludes this one.
    pub fn add_stdout(&mut self) -> Result<(), Failure> {
        self.add_output("stdout", Path::new("/dev/stdout"))
    }

    fn add(&mut self, what: String, path: &Path, use_: Use) -> Result<(), Failure> {
        let Some(identity) = identity_of(path) else { return Ok(()) };
        let clash =
            self.named.iter().find(|other| other.identity == identity && clashes(other.use_, use_));
        if let Some(other) = clash {
            return Err(Failure::named(
                what,
                FileError::SameFile {
                    other: other.what.clone(),
                    clash: clash_of(other.use_, use_),
                },
            ));
        }
        self.named.push(Named { what, identity, use_ });
        Ok(())
    }
}

/// Returns true if a file cannot have both uses.
const fn clashes(first: Use, second: Use) -> bool {
    !matches!((first, second), (Use::Input, Use::Input) | (Use::Device, Use::Device))
}

const fn clash_of(other: Use, use_: Use) -> Clash {
    match (other, use_) {
        (Use::Output, Use::Output) => Clash::BothWrite,
        (_, Use::Output) => Clash::Overwrites,
        (Use::Output, _) => Clash::IsOverwritten,
        (_, Use::Device | Use::Input) => Clash::DeviceAsText,
    }
}

/// Returns the identity of a file; `None` for what several users can read or write: terminals,
/// pipes, `/dev/null`.
fn identity_of(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            Some(Identity::Existing(metadata.dev(), metadata.ino()))
        }
        Ok(metadata) if metadata.file_type().is_block_device() => {
            Some(Identity::Existing(0, metadata.rdev()))
        }
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
                (
                    files.add_output("--html x", &at(name)),
                    "--html x: is the same file as JOB job, which it would",
                ),
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
            assert!(
                error.contains("--html new: is the same file as --trace new; give each its own"),
                "{error}"
            );
        }
        let mut files = Files::default();
        for _ in 0..2 {
            files
                .add_output("--html /dev/null", Path::new("/dev/null"))
                .expect("anyone may write there");
        }
    }
}
