//! Names of threads and volumes, each stored once.
//!
//! Cost: one hash of the name and one comparison; if the name equals the last one, only the
//! comparison. Memory is bounded for any trace: `MAX_NAMES` names of at most `MAX_NAME_LEN`
//! bytes.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault};
use std::num::NonZeroU32;

use hashbrown::{HashMap, HashTable};
use rustc_hash::{FxBuildHasher, FxHasher};

use crate::event::DeviceNumber;

/// Maximum number of names; further new names are read as absent.
pub(crate) const MAX_NAMES: usize = 1 << 18;
/// Maximum length of a stored name in bytes.
pub(crate) const MAX_NAME_LEN: usize = 255;

/// Key of an interned name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(NonZeroU32);

impl NameId {
    /// Returns the key's dense index, from 0 in order of appearance.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A table of names by their keys.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<Box<str>>,
    index: HashTable<NameId>,
    last: Option<NameId>,
    devices: BTreeMap<DeviceNumber, NameId>,
    volumes: HashMap<NameId, DeviceNumber, FxBuildHasher>,
    processes: HashMap<u32, NameId, FxBuildHasher>,
}

fn hash(name: &[u8]) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(name)
}

impl Names {
    /// Returns the key of a name, which is stored if it is new. Bytes that are not UTF-8 are
    /// replaced. `None` for an empty name, and if there are already `MAX_NAMES` others.
    pub fn intern(&mut self, name: &[u8]) -> Option<NameId> {
        if let Some(last) = self.last
            && self.names[last.index()].as_bytes() == name
        {
            return Some(last);
        }
        let name = &name[..name.len().min(MAX_NAME_LEN)];
        let text = String::from_utf8_lossy(name);
        let found =
            self.index.find(hash(text.as_bytes()), |id| *self.names[id.index()] == *text).copied();
        self.last = match found {
            Some(id) => Some(id),
            None if text.is_empty() || self.names.len() >= MAX_NAMES => None,
            None => self.insert(text.into_owned()),
        };
        self.last
    }

    fn insert(&mut self, name: String) -> Option<NameId> {
        let id = NameId(NonZeroU32::new(self.names.len() as u32 + 1)?);
        let key = hash(name.as_bytes());
        self.names.push(name.into_boxed_str());
        self.index.insert_unique(key, id, |id| hash(self.names[id.index()].as_bytes()));
        Some(id)
    }

    /// Returns the name of a key of this table.
    ///
    /// # Panics
    /// Panics if the key belongs to another table with more names.
    pub fn name(&self, id: NameId) -> &str {
        &self.names[id.index()]
    }

    /// Returns the number of names.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name with an index, see [`NameId::index`].
    pub(crate) fn at(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Returns the key of a stored name.
    pub fn find(&self, name: &str) -> Option<NameId> {
        self.index.find(hash(name.as_bytes()), |id| *self.names[id.index()] == *name).copied()
    }

    /// Returns the name that the trace gives a device, such as `srv0.1` or `/dev/vda`; `None` for
    /// devices with numbers only.
    pub fn device(&self, device: DeviceNumber) -> Option<&str> {
        self.devices.get(&device).map(|&id| self.name(id))
    }

    /// Returns the device that the trace names so: `loop2`, and also `/dev/loop2`. The first of
    /// several.
    pub fn device_named(&self, name: &str) -> Option<DeviceNumber> {
        let short = |name: &str| name.strip_prefix("/dev/").unwrap_or(name).to_owned();
        let wanted = short(name);
        self.devices
            .iter()
            .find(|&(_, &id)| short(self.name(id)) == wanted)
            .map(|(&device, _)| device)
    }

    /// Returns the device of a named volume: major 0, minor in order of appearance.
    pub(crate) fn volume(&mut self, name: &[u8]) -> Option<DeviceNumber> {
        let id = self.intern(name)?;
        let next = DeviceNumber::new(0, self.volumes.len() as u32);
        let device = *self.volumes.entry(id).or_insert(next);
        if device == next {
            self.devices.insert(device, id);
        }
        Some(device)
    }
}

impl Names {
    /// Returns the device of a host's disk, named `HOST.DISK`.
    pub(crate) fn volume_of(&mut self, host: &[u8], disk: &[u8]) -> Option<DeviceNumber> {
        let mut name = [0; 64];
        let length = host.len() + disk.len() + 1;
        if length > name.len() {
            return self.volume(host);
        }
        name[..host.len()].copy_from_slice(host);
        name[host.len()] = b'.';
        name[host.len() + 1..length].copy_from_slice(disk);
        self.volume(&name[..length])
    }

    /// Stores the name of a device.
    pub(crate) fn name_device(&mut self, device: DeviceNumber, name: &[u8]) {
        if (self.devices.len() < MAX_NAMES || self.devices.contains_key(&device))
            && let Some(id) = self.intern(name)
        {
            self.devices.insert(device, id);
        }
    }

    /// Returns the name of a process or thread by its number, as listed in a Perfetto trace.
    pub fn process(&self, pid: u32) -> Option<&str> {
        self.processes.get(&pid).map(|&id| self.name(id))
    }

    /// Stores the name of a process.
    pub(crate) fn set_process(&mut self, pid: u32, name: &[u8]) {
        if self.processes.len() < MAX_NAMES
            && let Some(id) = self.intern(name)
        {
            self.processes.insert(pid, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_kept_once() {
        let mut names = Names::default();
        let fio = names.intern(b"fio").unwrap();
        let dd = names.intern(b"dd").unwrap();
        assert_ne!(fio, dd);
        assert_eq!((names.intern(b"fio"), names.intern(b"fio")), (Some(fio), Some(fio)));
        assert_eq!((names.name(fio), names.name(dd)), ("fio", "dd"));
        assert_eq!(
            (names.find("dd"), names.find("cat"), names.intern(b"")),
            (Some(dd), None, None)
        );
        let odd = names.intern(b"a\xffb").unwrap();
        assert_eq!(names.intern(b"a\xffb"), Some(odd));
        assert_eq!(names.name(odd), "a\u{fffd}b");
        let long = names.intern(&[b'x'; 1000]).unwrap();
        assert_eq!(names.name(long).len(), MAX_NAME_LEN);
        assert_eq!(names.intern(&[b'x'; 2000]), Some(long));
    }

    #[test]
    fn volumes_are_numbered_in_order() {
        let mut names = Names::default();
        let first = names.volume(b"srv0.1").unwrap();
        let second = names.volume(b"srv1.0").unwrap();
        assert_eq!((first, second), (DeviceNumber::new(0, 0), DeviceNumber::new(0, 1)));
        assert_eq!(names.volume(b"srv0.1"), Some(first));
        assert_eq!(names.device(second), Some("srv1.0"));
        assert_eq!(names.device(DeviceNumber::new(8, 0)), None);
        names.name_device(DeviceNumber::new(7, 2), b"/dev/loop2");
        for name in ["loop2", "/dev/loop2"] {
            assert_eq!(names.device_named(name), Some(DeviceNumber::new(7, 2)));
        }
        assert_eq!(
            (names.device_named("srv1.0"), names.device_named("loop")),
            (Some(second), None)
        );
    }
}
