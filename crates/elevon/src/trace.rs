//! `--trace FILE`.

use std::path::Path;

use elevon_core::event::Event;
use elevon_core::kernel::Kernel;
use elevon_sim::device::Description;
use elevon_workload::jobs::Jobs;

use crate::failure::Failure;

/// A trace being written.
pub(crate) struct TraceFile {}

impl TraceFile {
    pub(crate) fn new(_path: &Path, _kernel: Kernel) -> Result<Self, Failure> {
        Ok(Self {})
    }
    pub(crate) fn start(&mut self, _device: &Description, _jobs: &Jobs) -> Result<(), Failure> {
        Ok(())
    }
    pub(crate) fn write(&mut self, _events: &[Event]) {}
    pub(crate) fn finish(self) -> Result<(), Failure> {
        Ok(())
    }
}
