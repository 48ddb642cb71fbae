//! Why no advice can be given.

use elevon_plan::failure::InputError;

/// Why no advice can be given on a trace.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AdviseError {
    /// No process did enough.
    #[error("no process has {fewest} I/Os or more, which it takes to tell a gain from chance")]
    TooFew {
        /// The number that is needed.
        fewest: usize,
    },
    /// The device is a path.
    #[error(
        "is real; advice is by replay on a simulated device, by default one that is fitted to the trace"
    )]
    RealDevice,
    /// A replay does not run to its end.
    #[error("the replay under it ends with errors, so nothing can be held against it")]
    Fails,
}

impl From<AdviseError> for InputError {
    fn from(error: AdviseError) -> Self {
        Self::Other(Box::new(error))
    }
}
