//! The server: devices, exports, listeners, and its end.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_core::ioprio::IoPrio;
use elevon_core::stack::Stack;
use elevon_core::units::TenantId;
use elevon_nbd::Export;
use elevon_workload::settings::Settings;

use crate::client::Charged;
use crate::connection;
use crate::device::{Device, DeviceHandle, Message};
use crate::disk::Disk;
use crate::listen::{Address, Listener, Socket};

/// How long clients in flight are waited for when the server ends.
const GRACE: Duration = Duration::from_secs(10);
/// How often the end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// An export of a server.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Its name; a client that names none gets the first export.
    pub name: String,
    /// Index of its device, in the order of [`Server::add_device`].
    pub device: usize,
    /// The tenant that its I/O is charged to.
    pub tenant: TenantId,
    /// The priority of its I/O.
    pub ioprio: IoPrio,
    /// Byte of the device at which it begins; a multiple of its block size.
    pub start: u64,
    /// Size, block sizes and abilities, as clients are told.
    pub told: Export,
}

/// Why a server cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A thread could not be started.
    #[error("no thread for a device: {0}")]
    Thread(#[source] io::Error),
    /// The thread that sets up a device ended.
    #[error("the thread of a device ended before it served")]
    Ended,
    /// An address cannot be listened at.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: Address,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// What connections know of the server.
pub(crate) struct Table {
    pub(crate) exports: Vec<Known>,
    pub(crate) devices: Vec<DeviceHandle>,
}

/// An export as connections know it.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) device: usize,
    pub(crate) charged: Charged,
    pub(crate) told: Export,
}

impl Table {
    /// Returns the index of an export. The empty name is that of the first, unless one has it.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let named = self.exports.iter().position(|export| export.name == name);
        named.or_else(|| (name.is_empty() && !self.exports.is_empty()).then_some(0))
    }
}

/// A server that is set up.
#[derive(Default)]
pub struct Server {
    devices: Vec<(DeviceHandle, JoinHandle<()>)>,
    exports: Vec<Exported>,
    listeners: Vec<Listener>,
}

impl Server {
    /// Creates a server without devices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts the thread of a device, which opens it by `open`: an io_uring belongs to the thread
    /// that made it. Returns what `open` says besides.
    ///
    /// # Errors
    /// Those of `open`, and a thread that cannot be started.
    pub fn add_device<D: Disk, T: Send + 'static, E: From<ServeError> + Send + 'static>(
        &mut self,
        open: impl FnOnce() -> Result<(Stack, D, Settings, T), E> + Send + 'static,
    ) -> Result<T, E> {
        let (messages, received) = channel();
        let (tell, told) = channel();
        let work = move || {
            let opened = open().and_then(|(stack, mut disk, settings, said)| {
                let alarm = disk.alarm().map_err(ServeError::Thread)?;
                Ok((Device::new(stack, disk, settings), alarm, said))
            });
            match opened {
                Ok((device, alarm, said)) => {
                    if tell.send(Ok((alarm, said))).is_ok() {
                        device.run(&received);
                    }
                }
                // Without a server nobody asks.
                Err(error) => drop(tell.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name("device".into()).spawn(work).map_err(ServeError::Thread)?;
        let (alarm, said) = told.recv().map_err(|_| ServeError::Ended)??;
        self.devices.push((DeviceHandle { messages, alarm }, thread));
        Ok(said)
    }

    /// Adds an export.
    ///
    /// # Panics
    /// If its device was not added, or its sizes are not what the protocol allows.
    pub fn add_export(&mut self, export: Exported) {
        assert!(export.device < self.devices.len() && export.told.is_valid(), "{export:?}");
        self.exports.push(export);
    }

    /// Listens at an address, and returns it with the port that was chosen for port 0.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn listen(&mut self, address: &Address) -> Result<Address, ServeError> {
        let fail = |error| ServeError::Listen { address: address.clone(), error };
        let listener = Listener::bind(address).map_err(fail)?;
        let bound = listener.address().map_err(fail)?;
        self.listeners.push(listener);
        Ok(bound)
    }

    /// Serves until `stop` says so. Then no connection is accepted, requests in flight are
    /// answered, and devices are closed. `log` is told why a connection ended badly.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn serve(self, stop: &dyn Fn() -> bool, log: fn(&str)) -> Result<(), ServeError> {
        let known = |export: Exported| Known {
            name: export.name,
            device: export.device,
            charged: Charged { tenant: export.tenant, ioprio: export.ioprio, base: export.start },
            told: export.told,
        };
        let (handles, threads): (Vec<_>, Vec<_>) = self.devices.into_iter().unzip();
        let table = Table { exports: self.exports.into_iter().map(known).collect(), devices: handles };
        let shared =
            Arc::new(Shared { table, sockets: Mutex::new(Some(BTreeMap::new())), next: AtomicU32::new(0), log });
        for listener in &self.listeners {
            let listener = listener.try_clone().map_err(ServeError::Thread)?;
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().spawn(move || accept(&listener, &shared)).map_err(ServeError::Thread)?;
        }
        while !stop() {
            std::thread::sleep(LOOK);
        }
        drop(self.listeners);
        shared.end();
        for device in &shared.table.devices {
            device.send(Message::Stop);
        }
        for thread in threads {
            let _ = thread.join();
        }
        Ok(())
    }
}

/// What the threads of a server share.
struct Shared {
    table: Table,
    /// The sockets of connections; `None` once the server has ended.
    sockets: Mutex<Option<BTreeMap<u32, Socket>>>,
    next: AtomicU32,
    log: fn(&str),
}

impl Shared {
    /// Asks every connection to end, and waits until they have, or for [`GRACE`].
    fn end(&self) {
        let each = |how| {
            let sockets = self.sockets.lock().expect("no thread panics with the lock");
            sockets.iter().flatten().for_each(|(_, socket)| socket.shutdown(how));
            sockets.as_ref().map_or(0, BTreeMap::len)
        };
        let began = Instant::now();
        while each(Shutdown::Read) > 0 && began.elapsed() < GRACE {
            std::thread::sleep(LOOK);
        }
        each(Shutdown::Both);
        *self.sockets.lock().expect("no thread panics with the lock") = None;
    }
}

/// Accepts connections until the server has ended.
fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let socket = match listener.accept() {
            Ok(socket) => socket,
            Err(error) => {
                (shared.log)(&format!("a connection could not be accepted: {error}"));
                // No descriptors are left, most likely.
                std::thread::sleep(LOOK);
                continue;
            }
        };
        let name = shared.next.fetch_add(1, Ordering::Relaxed);
        let Ok(second) = socket.try_clone() else { continue };
        match shared.sockets.lock().expect("no thread panics with the lock").as_mut() {
            Some(sockets) => drop(sockets.insert(name, second)),
            None => return,
        }
        let of_thread = Arc::clone(shared);
        let thread = std::thread::Builder::new().spawn(move || {
            if let Err(error) = connection::serve(name, socket, &of_thread.table) {
                (of_thread.log)(&format!("connection {name}: {error}"));
            }
            of_thread.sockets.lock().expect("no thread panics with the lock").iter_mut().for_each(|sockets| {
                sockets.remove(&name);
            });
        });
        if let Err(error) = thread {
            (shared.log)(&format!("no thread for a connection: {error}"));
        }
    }
}
