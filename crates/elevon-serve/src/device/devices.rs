//! The devices of a server, which come and go while it runs. Each has a thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::message::{DeviceHandle, Message};
use super::{DeviceLoop, DeviceParts, ErrorLog};
use crate::device::request_memory::RequestMemory;
use crate::disks::Disk;
use crate::error::ServeError;
use crate::log::{Field, Level, Log, Record};

const LOCK: &str = "no thread panics with the lock";

/// How often it is looked whether a thread has ended.
const THREAD_POLL: Duration = Duration::from_millis(2);

/// How long [`Devices::remove`] waits for a thread that writes back what is cached.
const LEAVING: Duration = Duration::from_secs(10);

/// The devices of a server. A device has a number, which no later device gets again.
pub struct Devices {
    all: RwLock<All>,
    /// The threads of removed devices that had not ended when they were waited for.
    leaving: Mutex<Vec<(String, JoinHandle<bool>)>>,
    /// True if something that was written did not reach a device that was removed.
    has_lost: AtomicBool,
    memory: RequestMemory,
    log: Log,
}

#[derive(Default)]
struct All {
    next: usize,
    devices: BTreeMap<usize, (DeviceHandle, JoinHandle<bool>)>,
}

impl Devices {
    pub(crate) fn new(memory: RequestMemory, log: Log) -> Self {
        let (all, leaving, has_lost) =
            (RwLock::default(), Mutex::default(), AtomicBool::new(false));
        Self { all, leaving, has_lost, memory, log }
    }

    /// Starts the thread of a device, which opens it by `open`: an io_uring belongs to the thread
    /// that made it. The plan is the one that the settings were made of. Returns the number of the
    /// device, which counts from 0, and what `open` returns besides.
    ///
    /// # Errors
    /// Those of `open`, and a thread that cannot be started.
    pub fn add<D: Disk, T: Send + 'static, E: From<ServeError> + Send + 'static>(
        &self,
        name: &str,
        open: impl FnOnce() -> Result<(DeviceParts<D>, T), E> + Send + 'static,
    ) -> Result<(usize, T), E> {
        let (messages, received) = channel();
        let (sender, opening) = channel();
        let (errors, memory) = (ErrorLog::new(name, self.log), self.memory.clone());
        let work = move || {
            let opened = open().and_then(|(mut parts, said)| {
                let alarm = parts.disk.alarm().map_err(ServeError::Thread)?;
                Ok((DeviceLoop::new(parts, errors, memory), alarm, said))
            });
            match opened {
                Ok((device, alarm, said)) => {
                    sender.send(Ok((alarm, device.kernel(), said))).is_err()
                        || device.run(&received)
                }
                Err(error) => {
                    // Without a server there are no questions.
                    drop(sender.send(Err(error)));
                    true
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("device".into())
            .spawn(work)
            .map_err(ServeError::Thread)?;
        let (alarm, kernel, said) = opening.recv().map_err(|_| ServeError::Ended)??;
        let (name, has_failed) = (name.to_owned(), Arc::default());
        Ok((self.insert(DeviceHandle { name, kernel, messages, alarm, has_failed }, thread), said))
    }

    /// Adds a device whose thread runs, and returns its number.
    pub(crate) fn insert(&self, device: DeviceHandle, thread: JoinHandle<bool>) -> usize {
        let mut all = self.all.write().expect(LOCK);
        let number = all.next;
        all.next += 1;
        all.devices.insert(number, (device, thread));
        number
    }

    /// Removes a device, of which no export may be left. Its thread answers the clients that it
    /// still has, writes back what is cached, and closes the device. Returns false if the thread
    /// has not ended after 10 s; it goes on, and the end of the server waits for it.
    pub fn remove(&self, number: usize) -> bool {
        let Some((device, thread)) = self.all.write().expect(LOCK).devices.remove(&number) else {
            return true;
        };
        device.send(Message::Stop);
        let began = Instant::now();
        while !thread.is_finished() {
            if began.elapsed() >= LEAVING {
                self.leaving.lock().expect(LOCK).push((device.name, thread));
                return false;
            }
            std::thread::sleep(THREAD_POLL);
        }
        if !self.join(&device.name, thread) {
            self.has_lost.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Makes a device as large as its file or block device is now, if that has grown. Returns its
    /// bytes before and after that; `None` if it has not grown.
    ///
    /// # Errors
    /// It has grown, and cannot be served in its new size.
    pub fn grow(&self, number: usize) -> Result<Option<(u64, u64)>, String> {
        let Some(device) = self.get(number) else { return Ok(None) };
        device.ask(|answer| Message::Grow { answer }).unwrap_or(Ok(None))
    }

    /// Returns true if a device has this number.
    pub fn contains(&self, number: usize) -> bool {
        self.all.read().expect(LOCK).devices.contains_key(&number)
    }

    pub(crate) fn get(&self, number: usize) -> Option<DeviceHandle> {
        self.all.read().expect(LOCK).devices.get(&number).map(|(device, _)| device.clone())
    }

    /// Returns the devices with their numbers, in the order in which they were added.
    pub(crate) fn all(&self) -> Vec<(usize, DeviceHandle)> {
        let all = self.all.read().expect(LOCK);
        all.devices.iter().map(|(&number, (device, _))| (number, device.clone())).collect()
    }

    /// Returns the devices that were not removed and whose threads have ended since this was asked
    /// the last time. They are failed from now on.
    pub(crate) fn take_failed(&self) -> Vec<(usize, DeviceHandle)> {
        let all = self.all.read().expect(LOCK);
        let ended = all.devices.iter().filter(|(_, (_, thread))| thread.is_finished());
        let is_new = |device: &DeviceHandle| !device.has_failed.swap(true, Ordering::Relaxed);
        ended
            .filter(|(_, (device, _))| is_new(device))
            .map(|(&number, (device, _))| (number, device.clone()))
            .collect()
    }

    /// Returns true if there are devices, and all of them are failed.
    pub(crate) fn have_all_failed(&self) -> bool {
        let devices = &self.all.read().expect(LOCK).devices;
        !devices.is_empty() && devices.values().all(|(device, _)| device.has_failed())
    }

    /// Ends all devices, and waits for that, with a call of `waits` from time to time. Returns
    /// false if something that was written did not reach its device, or a thread panicked.
    pub(crate) fn end(&self, mut waits: impl FnMut()) -> bool {
        let devices = std::mem::take(&mut self.all.write().expect(LOCK).devices);
        for (device, _) in devices.values() {
            device.send(Message::Stop);
        }
        let leaving = std::mem::take(&mut *self.leaving.lock().expect(LOCK));
        let threads =
            devices.into_values().map(|(device, thread)| (device.name, thread)).chain(leaving);
        let is_whole = threads.fold(true, |is_whole, (name, thread)| {
            while !thread.is_finished() {
                waits();
                std::thread::sleep(THREAD_POLL);
            }
            self.join(&name, thread) && is_whole
        });
        is_whole && !self.has_lost.load(Ordering::Relaxed)
    }

    /// Waits for the end of a thread, and returns what it says; false if it panicked.
    fn join(&self, name: &str, thread: JoinHandle<bool>) -> bool {
        thread.join().unwrap_or_else(|_| {
            let message = format!(
                "device {name}: its thread ended by a panic, a fault of Elevon; restart the server to serve it"
            );
            let fields = [("device", Field::Text(name))];
            (self.log)(&Record {
                level: Level::Error,
                target: "server",
                message: &message,
                fields: &fields,
            });
            false
        })
    }
}
