//! Errors of the machine: the input was valid, but the work could not be done.

use std::io;

use elevon_trace::capture::CaptureError;
use elevon_trace::write::WriteError;

/// Why the machine could not do something; prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No signal can be caught.
    #[error("cannot watch for signals: {0}")]
    Signals(#[source] io::Error),
    /// A server does not answer.
    #[error("{socket}: {error}")]
    Server {
        /// Its control socket.
        socket: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Sockets that the process was started with cannot be used.
    #[error(transparent)]
    Passed(#[from] elevon_host::passed::PassedError),
    /// No I/O can be done on a real device.
    #[error("cannot start I/O: {0}")]
    StartIo(#[source] io::Error),
    /// There is not enough memory for the frames of `--cache`.
    #[error("--cache: no memory for {bytes} bytes: {error}")]
    Frames {
        /// Bytes of the frames.
        bytes: u64,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("{output}: cannot write: {error}")]
    Write {
        /// Option and path.
        output: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A trace cannot be read to its end.
    #[error("{trace}: cannot be read to its end: {error}")]
    Read {
        /// Its name.
        trace: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The kernel's tracefs does not do what it should.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The file of `--trace` cannot be started.
    #[error(transparent)]
    TraceFile(#[from] WriteError),
    /// A run of an experiment failed.
    #[error("{command}: the run did not end: {warnings:?}")]
    RunNotEnded {
        /// The command of the run.
        command: String,
        /// The warnings of the run.
        warnings: Vec<String>,
    },
    /// A number that a run with it should give again has not settled.
    #[error("{run}: {number} is another number after each run with it")]
    Unsettled {
        /// The name of the run.
        run: String,
        /// The name of the number.
        number: String,
    },
}
