//! The server: devices, exports, listeners, and its end.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use elevon_host::passed::Passed;

use crate::admin::reporter::Reporter;
use crate::admin::{commands, http};
use crate::control::{Reload, Reloader};
use crate::device::devices::Devices;
use crate::device::request_memory::RequestMemory;
use crate::error::ServeError;
use crate::event::Event;
use crate::log::{Level, Log, Record};
use crate::net::export::{Exported, ServedExport};
use crate::net::gate::Gate;
use crate::net::listen::{Address, Listener, SocketAccess};
use crate::net::tls::Tls;
use crate::net::{nbd, vhost};
use crate::shared::{ConnectionLimits, POLL_PERIOD, Shared};
use crate::web;

/// Callbacks of the process that runs a server.
pub struct Hooks<'a> {
    /// Whether the server is to end.
    pub stop: &'a dyn Fn() -> bool,
    /// Whether the configuration is to be read again; true once for each time that it was asked
    /// for.
    pub reload_wanted: &'a dyn Fn() -> bool,
    /// Reads it again.
    pub reload: Option<Reload>,
    /// Takes what the server tells.
    pub notify: fn(Event<'_>),
    /// How often [`Event::Alive`] is wanted, if it is.
    pub watchdog: Option<Duration>,
    /// Makes the page in HTML that a browser is sent: it asks this server for `/api/stats`.
    pub page: fn() -> String,
}

/// A server that is set up.
pub struct Server {
    devices: Devices,
    exports: Vec<Exported>,
    /// Each with its address, if that belongs to certain exports.
    listeners: Vec<(Listener, Option<Arc<str>>)>,
    /// Those for guests, each with its address, which belongs to one export.
    of_guests: Vec<(Listener, Arc<str>)>,
    commands: Vec<Listener>,
    http: Vec<Listener>,
    tls: Option<Tls>,
    limits: ConnectionLimits,
    memory: RequestMemory,
    log: Log,
}

impl Server {
    /// Creates a server without devices, in which so many connections may have exports open. `log`
    /// takes records of what goes wrong and what is done.
    pub fn new(limits: ConnectionLimits, log: Log) -> Self {
        let memory = RequestMemory::new(limits.request_memory);
        Self {
            devices: Devices::new(memory.clone(), log),
            exports: Vec::new(),
            listeners: Vec::new(),
            of_guests: Vec::new(),
            commands: Vec::new(),
            http: Vec::new(),
            tls: None,
            memory,
            limits,
            log,
        }
    }

    /// Returns its devices. A device is added before its exports.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Adds an export.
    ///
    /// # Panics
    /// If its device was not added, or its sizes are not as [`crate::ExportedDisk`] has them.
    pub fn add_export(&mut self, export: Exported) {
        assert!(self.devices.contains(export.device) && export.disk.is_valid(), "{export:?}");
        self.exports.push(export);
    }

    /// Offers TLS, or requires it. Without it clients are not protected.
    pub fn set_tls(&mut self, tls: Option<Tls>) {
        self.tls = tls;
    }

    /// Listens at an address, and returns it with the port that was chosen for port 0.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn listen(
        &mut self,
        address: &Address,
        access: SocketAccess,
    ) -> Result<Address, ServeError> {
        let (listener, bound) = bind(address, access)?;
        self.listeners.push((listener, None));
        Ok(bound)
    }

    /// The same for an address that belongs to the exports that name it.
    ///
    /// # Errors
    /// As of [`Self::listen`].
    pub fn listen_for_exports(
        &mut self,
        address: &Address,
        access: SocketAccess,
    ) -> Result<Address, ServeError> {
        let (listener, bound) = bind(address, access)?;
        self.listeners.push((listener, Some(address.to_string().into())));
        Ok(bound)
    }

    /// Listens for guests, which speak vhost-user-blk, at the address of one export.
    ///
    /// # Errors
    /// As of [`Self::listen`].
    pub fn listen_for_guests(
        &mut self,
        address: &Address,
        access: SocketAccess,
    ) -> Result<Address, ServeError> {
        let (listener, bound) = bind(address, access)?;
        self.of_guests.push((listener, address.to_string().into()));
        Ok(bound)
    }

    /// Listens at a socket that was passed to the process. One named `control` takes commands, one
    /// named `metrics` serves metrics, and any other serves disks.
    pub fn adopt(&mut self, name: &str, socket: Passed) {
        let listener = Listener::of_passed(socket);
        match name {
            "control" => self.commands.push(listener),
            "metrics" => self.http.push(listener),
            _ => self.listeners.push((listener, None)),
        }
    }

    /// Listens for commands at a path of the file system, which only its owner can open.
    ///
    /// # Errors
    /// The path cannot be listened at.
    pub fn listen_for_commands(&mut self, path: &Path) -> Result<(), ServeError> {
        let address = Address::Unix(path.to_owned());
        let fail = |error| ServeError::Listen { address: address.clone(), error };
        // Not changed afterwards: a client that connects before stays connected.
        let listener = elevon_host::file::of_owner(|| Listener::bind(&address)).map_err(fail)?;
        self.commands.push(listener);
        Ok(())
    }

    /// Listens for clients of HTTP, which read metrics, and returns the address with the port that
    /// was chosen for port 0.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn listen_for_http(&mut self, address: &Address) -> Result<Address, ServeError> {
        let (listener, bound) = bind(address, SocketAccess::default())?;
        self.http.push(listener);
        Ok(bound)
    }

    /// Serves until it is told to stop, or the threads of all devices have ended. Then no
    /// connection is accepted, requests in flight are answered, and devices are closed. Returns
    /// false if a thread ended before that, or something that was written did not reach its device;
    /// the log has why. A device whose thread ends is failed: its clients are cut, and the others
    /// are served on.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn run(self, hooks: Hooks<'_>) -> Result<bool, ServeError> {
        // A connection takes two descriptors. A system that refuses leaves what there is.
        let _ = elevon_host::raise_descriptor_limit();
        let exports = self.exports.into_iter().map(ServedExport::of).collect();
        let shared = Arc::new(Shared::new(
            exports,
            self.devices,
            (self.tls, self.limits, self.memory),
            hooks.notify,
            self.log,
        ));
        let reloader = Arc::new(Reloader::new(Arc::clone(&shared), hooks.reload));
        for (listener, place) in &self.listeners {
            let (place, gate): (_, Arc<dyn Gate>) = (place.clone(), Arc::<Shared>::clone(&shared));
            start_listener("accept", listener, move |listener| {
                nbd::accept(listener, place.as_ref(), &gate);
            })?;
        }
        for (listener, place) in &self.of_guests {
            let (place, gate): (_, Arc<dyn Gate>) =
                (Arc::clone(place), Arc::<Shared>::clone(&shared));
            start_listener("guests", listener, move |listener| {
                vhost::accept(listener, &place, &gate);
            })?;
        }
        for listener in &self.commands {
            let reloader = Arc::clone(&reloader);
            start_listener("commands", listener, move |listener| {
                commands::accept(listener, &reloader);
            })?;
        }
        for listener in &self.http {
            let site = http::site(Arc::clone(&shared), hooks.page);
            start_listener("http", listener, move |listener| web::accept(listener, &site))?;
        }
        shared.notify(Event::Ready);
        let mut reporter = Reporter::new(hooks.watchdog);
        let mut reload: Option<JoinHandle<()>> = None;
        while !(hooks.stop)() && !shared.is_stopping() && !shared.have_devices_ended() {
            // It waits for clients that have to leave, and what comes meanwhile is one more.
            if reload.as_ref().is_none_or(JoinHandle::is_finished) && (hooks.reload_wanted)() {
                reload = start_reload(&reloader);
            }
            reporter.report(&shared);
            shared.log_unwarned(false);
            std::thread::sleep(POLL_PERIOD);
        }
        shared.notify(Event::Stopping);
        drop((self.listeners, self.of_guests, self.commands, self.http));
        shared.end();
        shared.log_unwarned(true);
        // A page cache may take longer to be written back than a watchdog waits.
        let mut told = Instant::now();
        let alive = || {
            if hooks.watchdog.is_some_and(|every| told.elapsed() >= every) {
                shared.notify(Event::Alive);
                told = Instant::now();
            }
        };
        Ok(shared.devices.end(alive))
    }
}

/// Starts a thread that accepts at a listener.
fn start_listener(
    name: &str,
    listener: &Listener,
    accept: impl FnOnce(&Listener) + Send + 'static,
) -> Result<(), ServeError> {
    let listener = listener.try_clone().map_err(ServeError::Thread)?;
    let work = move || accept(&listener);
    std::thread::Builder::new().name(name.into()).spawn(work).map_err(ServeError::Thread)?;
    Ok(())
}

/// Reads the configuration again in a thread of its own.
fn start_reload(reloader: &Arc<Reloader>) -> Option<JoinHandle<()>> {
    let of_thread = Arc::clone(reloader);
    let thread = std::thread::Builder::new()
        .name("reload".into())
        .spawn(move || drop(of_thread.reload_and_log()));
    let failed = |error: io::Error| {
        let message = format!(
            "not reloaded, and the old configuration is in force: no thread can be started: {error}"
        );
        reloader.shared().log(&Record::new(Level::Error, "reload", &message));
    };
    thread.map_err(failed).ok()
}

/// Listens at an address, and returns it with the port that was chosen for port 0.
fn bind(address: &Address, access: SocketAccess) -> Result<(Listener, Address), ServeError> {
    let fail = |error| ServeError::Listen { address: address.clone(), error };
    let listener = Listener::bind_for(address, access).map_err(fail)?;
    let bound = listener.address().map_err(fail)?;
    Ok((listener, bound))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use elevon_core::kernel::Kernel;
    use elevon_formats::serve::REQUEST_MEMORY;
    use elevon_host::Alarm;

    use super::*;
    use crate::control::Control;
    use crate::device::message::DeviceHandle;

    fn server(threads: Vec<fn() -> bool>) -> Server {
        let server = Server::new(
            ConnectionLimits { all: 1, of_client: None, request_memory: REQUEST_MEMORY },
            |_| {},
        );
        for work in threads {
            let alarm = Alarm::new().expect("a descriptor");
            let (name, messages, has_failed) = ("d".to_owned(), channel().0, Arc::default());
            let handle =
                DeviceHandle { name, kernel: Kernel::DEFAULT, messages, alarm, has_failed };
            server.devices.insert(handle, std::thread::spawn(work));
        }
        server
    }

    fn hooks<'a>(stop: &'a dyn Fn() -> bool, reload_wanted: &'a dyn Fn() -> bool) -> Hooks<'a> {
        Hooks {
            stop,
            reload_wanted,
            reload: None,
            notify: |_| {},
            watchdog: None,
            page: String::new,
        }
    }

    /// These servers are never stopped.
    #[test]
    fn a_server_ends_with_the_threads_of_all_devices() {
        let ends = |work: fn() -> bool| {
            server(vec![work]).run(hooks(&|| false, &|| false)).expect("threads")
        };
        assert!(!ends(|| false), "something was not written");
        assert!(!ends(|| panic!("as a device may")));
        assert!(ends(|| true));
        // The first is failed, and the server goes on with the second.
        static BEGAN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        let slow = || {
            BEGAN.get_or_init(Instant::now);
            std::thread::sleep(10 * POLL_PERIOD);
            true
        };
        let is_whole =
            server(vec![|| panic!("as a device may"), slow]).run(hooks(&|| false, &|| false));
        assert!(!is_whole.expect("threads"));
        assert!(BEGAN.get().expect("it began").elapsed() >= 10 * POLL_PERIOD);
    }

    #[test]
    fn a_server_ends_while_it_reads_its_configuration() {
        let (started, has_started) = channel();
        let (release, released) = channel::<()>();
        let reload = move |_: &Control<'_>| {
            started.send(()).expect("it is waited for");
            // Until the test ends.
            let _ = released.recv();
            Ok(Vec::new())
        };
        let stop = || has_started.try_recv().is_ok();
        let hooks = Hooks { reload: Some(Box::new(reload)), ..hooks(&stop, &|| true) };
        assert!(server(Vec::new()).run(hooks).expect("threads"));
        drop(release);
    }
}
