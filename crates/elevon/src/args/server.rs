//! Arguments of the server's commands.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use elevon_formats::serve::MAX_CONNECTIONS_MAX;

use super::TextOrJson;
use super::stack::{OfQueue, StackArgs};

pub(super) const CTL_EXAMPLES: &str = "\
Examples:
  elevon ctl /run/elevon/ctl.sock exports
  elevon ctl /run/elevon/ctl.sock explain db             why it has the rate that it has, over a second
  elevon ctl /run/elevon/ctl.sock set db 'weight = 400'  as in a file of tenants, until the next reload
  elevon ctl /run/elevon/ctl.sock set db 'limit = { bps = \"10MB\", burst = \"64MiB\" }'
  elevon ctl /run/elevon/ctl.sock set db 'limit.iops = 100'  this key alone; the rest of the limit stays
  elevon ctl /run/elevon/ctl.sock drain db               no client may open it; those that have it open are answered and sent away

The path is the server's `control` key, or --control. docs/reference/serve-running.md has what programs write to the socket and read from it.

Exit status: 0 done, 1 no server answers or a reload left something as it was, 2 bad input, which the server refuses.";

pub(super) const TOP_EXAMPLES: &str = "\
Examples:
  elevon top /run/elevon/ctl.sock                        a screen that is drawn each second; q ends it
  elevon top /run/elevon/ctl.sock --once --interval 5    one interval of five seconds, as text

Exit status: 0 done, 1 the server does not answer, 2 bad input.";

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// What to serve: a file or block device, a simulated device as --device of `elevon run` takes
    /// it, or a configuration, whose name ends in .toml (docs/reference/serve.md)
    #[arg(value_name = "FILE|CONFIG.toml")]
    pub(crate) file: PathBuf,
    /// Check a configuration and the devices that it names, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Where to listen: unix:PATH or tcp:HOST:PORT; NBD's port is 10809 (repeatable)
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Vec<String>,
    /// Mode of the Unix sockets of --listen, such as 0660 [default: as the umask has it, or 0660
    /// with --socket-group]
    #[arg(long, value_name = "MODE")]
    pub(crate) socket_mode: Option<String>,
    /// Group of these sockets, by its name or its number
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,
    /// Path of a socket at which the server takes commands (`elevon ctl`)
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Where to serve metrics for Prometheus over HTTP: tcp:127.0.0.1:9464 or unix:PATH
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// The form of the log on stderr: lines of text, an object of JSON a line, or text with the
    /// levels of the journal [default: text, or journal if systemd reads stderr]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// The least grave that is logged; debug has connections, too
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
    /// Name of the export [default: the file's name]; clients that name none get it, too
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Offer TLS with the files of a folder, named as for qemu and nbdkit: server-cert.pem,
    /// server-key.pem, and ca-cert.pem, which has to have signed clients' certificates
    #[arg(long, value_name = "DIR", group = "tls")]
    pub(crate) tls_certificates: Option<PathBuf>,
    /// Offer TLS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", group = "tls")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ask clients for a certificate that this authority signed (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// A client that may open the export: a name in its certificate, or uid:USER or gid:GROUP of a
    /// process that connects to a Unix socket; to others the export does not exist (repeatable)
    /// [default: everybody]
    #[arg(long = "client", value_name = "NAME")]
    pub(crate) clients: Vec<String>,
    /// With TLS, refuse clients that do not use it [default: true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", requires = "tls")]
    pub(crate) tls_required: Option<bool>,
    /// Connections that may have the export open, from 1 to 65536 [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CONNECTIONS_MAX)))]
    pub(crate) max_connections: Option<u32>,
    /// Memory for the data of requests of all clients, beyond the 512 KiB that each may have: a
    /// size with its unit, at least 128MiB. A request for which there is not enough waits
    /// [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) request_memory: Option<String>,
    /// Serve the bytes of the file even if they are an image, such as one of qcow2, which is
    /// refused otherwise
    #[arg(long, value_name = "raw", value_enum)]
    pub(crate) format: Option<DiskFormat>,
    /// Refuse to write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Bypass the page cache of this machine (O_DIRECT), if the file system allows it
    #[arg(long)]
    pub(crate) direct: bool,
    /// Page cache before the device, in this process's memory: SIZE[,write-back|write-through]. It
    /// implies --direct, and its settings are among those of --set. What was flushed or written
    /// with FUA is durable; the rest is in memory, or with write-through at the device
    #[arg(long, value_name = "SIZE")]
    pub(crate) cache: Option<String>,
    /// Poll for so long before the thread sleeps, while that finds something; 0 never does
    /// [default: 50us]
    #[arg(long, value_name = "TIME")]
    pub(crate) busy_poll: Option<String>,
    /// If the server of the disk is gone: error lets requests fail, hold keeps them for 10 s until
    /// it is there again, hold=TIME for another time
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_loss: Option<String>,
    #[command(flatten)]
    pub(crate) queue: StackArgs<OfQueue>,
    /// The tenant of that file that the export's I/O is charged to
    #[arg(long, value_name = "PATH", requires = "tenants")]
    pub(crate) tenant: Option<String>,
}

/// The format in which the bytes of a file are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskFormat {
    Raw,
}

/// The form of the log of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
    Journal,
}

/// What the log of a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
}

#[derive(Args, Debug)]
pub(crate) struct CtlArgs {
    /// The server's control socket
    #[arg(value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
    /// Answer as text or as JSON
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TextOrJson::Normal, global = true)]
    pub(crate) output_format: TextOrJson,
}

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// The server's control socket
    #[arg(value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
    /// Print one interval as text and end (also if stdout is not a terminal)
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks, from 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) interval: f64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// List the exports, and how many connections have each open
    Exports,
    /// List the connections: who each is, by its address or its process and the names in its
    /// certificate, and which export it has open
    Connections,
    /// Answer what a client has asked for and end its connections; it may come again
    Disconnect {
        /// A connection's number, an address, pid:N, uid:N or gid:N, a name in a certificate, or
        /// an export
        whom: String,
    },
    /// What every tenant did since the server started
    Stats,
    /// Why a tenant has the rate that it has
    Explain {
        /// Path of the tenant; `/` is the root, which pays for a single export without --tenant
        tenant: String,
        /// Time to look at, in seconds
        #[arg(long, value_name = "N", default_value_t = 1.0, allow_negative_numbers = true)]
        seconds: f64,
    },
    /// Change a setting of a tenant, over what is in force
    Set {
        /// Path of the tenant
        tenant: String,
        /// A line as below the tenant's table in a file of tenants (docs/reference/tenants.md)
        setting: String,
    },
    /// Change the faults of a device: these rules in place of those that it has
    Fault {
        /// The device's name
        device: String,
        /// Rules as --fault takes them (`elevon faults`), or `off` for none
        #[arg(required = true)]
        rules: Vec<String>,
    },
    /// Close an export, or all, to new clients; list those that have it open, and send them away
    Drain {
        /// The export; every one if not given
        export: Option<String>,
    },
    /// Let clients open an export, or any, again
    Resume {
        /// The export; every one if not given
        export: Option<String>,
    },
    /// Connect anew to the server whose disk a device is, and let flushes succeed again after one
    /// that failed
    Reopen {
        /// The device, as the configuration names it
        device: String,
    },
    /// Read the configuration again, as SIGHUP does
    Reload,
    /// End the server, as SIGTERM does
    Stop {
        /// Wait until it has ended: clients have their answers, and a page cache is written back
        #[arg(long)]
        wait: bool,
    },
    /// Words that are no command, so that the answer has those that there are.
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}
