//! What is wrong with the options of a command, beyond those of a run.

use std::path::PathBuf;

use elevon_plan::failure::InputError;

/// Options that contradict each other, or that a command lacks. The line starts with option and
/// value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// An option of a single export beside a configuration.
    #[error("{config} says what is served and how; give it there")]
    BesideConfig {
        /// The configuration.
        config: String,
    },
    /// `--check` without a configuration.
    #[error("--check is for a configuration, whose name ends in .toml")]
    CheckOfNoConfig,
    /// A single export, and nowhere to listen.
    #[error(
        "--listen is not given; write --listen unix:PATH or --listen tcp:HOST:PORT, or name a CONFIG.toml"
    )]
    NoListen,
    /// `--client` where no authority signs the certificates of clients.
    #[error(
        "names of clients come from their certificates; {}",
        .folder.as_ref().map_or_else(|| "give --tls-client-ca".to_owned(), |folder| format!("{} has no ca-cert.pem", folder.display()))
    )]
    NoClientAuthority {
        /// The folder of `--tls-certificates`, if it was given.
        folder: Option<PathBuf>,
    },
    /// A configuration without addresses, and no socket was passed.
    #[error(
        "listen: nothing to listen at; write listen = [\"unix:/run/elevon/nbd.sock\"], or start the server by a \
         socket unit of systemd (LISTEN_FDS)"
    )]
    NoAddress,
    /// A file of `--tenants` with tenants, and none of them is said to pay for what is served.
    #[error("which tenant pays for what is served? Add --tenant with one of {names}")]
    WhichTenant {
        /// The paths of the tenants.
        names: String,
    },
    /// A tenant that the file of `--tenants` does not have.
    #[error("the file of --tenants has no such tenant{meant}")]
    NoTenant {
        /// A name that was perhaps meant, as words.
        meant: String,
    },
    /// The name of a simulated device in the place of a trace.
    #[error("is a device, and not the name of a trace; write --device {device}")]
    DeviceForTrace {
        /// The device.
        device: String,
    },
    /// An option of replays with a job file.
    #[error("says how a trace is replayed; {input} is none")]
    ReplayOnly {
        /// The file.
        input: String,
    },
    /// An experiment on a real device.
    #[error("an experiment runs on simulated devices; `elevon run` does I/O on a real one")]
    SimulatedExperiment,
    /// `--html` without an experiment.
    #[error("name the experiment that the page is of")]
    NoExperiment,
}

impl From<CommandError> for InputError {
    fn from(error: CommandError) -> Self {
        Self::Other(Box::new(error))
    }
}
