//! The Linux block layer as a state machine.
//!
//! ```text
//!   Io ──▶ limits, build, split ──▶ plug, merge ──▶ scheduler ──▶ tags ──▶ Driver
//!            (a call, its bios)      (requests)      (an order)   (depth)     │
//!   Done ◀── end of the call ◀── end of bios ◀── account ◀── Completion ◀─────┘
//! ```
//!
//! A [`Stack`] is one disk's request queue. It holds policy only: no clock, no chance, no floats,
//! no threads, no I/O. The current time is an argument of every method, and so is the device, a
//! [`Driver`]. The same stack runs in virtual time over a simulated device and in real time over a
//! file.
//!
//! This example reads 4 KiB from a disk that takes a millisecond for a command:
//!
//! ```
//! use elevon_core::ioprio::IoPrio;
//! use elevon_core::op::{Flags, Op};
//! use elevon_core::tenant::ROOT;
//! use elevon_core::units::{Bytes, Instant, Nanos, Sector, Sectors, TaskId};
//! use elevon_core::{Accept, Command, Completion, Driver, Io, Layout, Pieces, QueueLimits};
//! use elevon_core::{Stack, StackConfig, Status, Submitted};
//!
//! #[derive(Default)]
//! struct Disk(Vec<(Instant, Completion)>);
//!
//! impl Driver for Disk {
//!     fn queue_command(&mut self, now: Instant, command: &Command, _: &dyn Pieces) -> Accept {
//!         self.0.push((now + Nanos::from_millis(1), Completion::success(command)));
//!         Accept::Ok
//!     }
//! }
//!
//! let mut disk = Disk::default();
//! let size = Sectors::new(1 << 21);
//! let mut stack = Stack::new(StackConfig::new(QueueLimits::default(), size, 1, 32))?;
//! let layout = stack.register_layout(Layout::contiguous(4096, 0));
//! let io = Io {
//!     task: TaskId(1),
//!     token: 7,
//!     op: Op::Read,
//!     flags: Flags::SYNC,
//!     sector: Sector::new(2048),
//!     bytes: Bytes::new(4096),
//!     ioprio: IoPrio::NONE,
//!     write_hint: 0,
//!     tenant: ROOT,
//!     layout,
//!     may_block: true,
//! };
//! assert_eq!(stack.submit(Instant::ZERO, io, &mut disk), Submitted::Accepted);
//! let (at, completion) = disk.0.pop().expect("a command is in the device");
//! stack.handle_completion(at, completion, &mut disk);
//! let done = stack.poll_done().expect("the read has ended");
//! assert_eq!((done.token, done.status), (7, Status::Ok));
//! assert_eq!(at, Instant::ZERO + Nanos::from_millis(1));
//! # Ok::<(), elevon_core::stack::BuildError>(())
//! ```
//!
//! A caller that keeps I/O in flight also runs the stack's timers: [`Stack::next_timer`] says when,
//! and [`Stack::handle_timers`] does it. The modules are in the order of a bio's path: [`build`],
//! [`split`], [`merge`], [`sched`], [`tags`], [`flush`], [`driver`] and [`account`]; [`stack`]
//! connects them.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::float_arithmetic, clippy::print_stdout, clippy::print_stderr)]

extern crate alloc;

// Basic types, used by all other modules.
pub mod ioprio;
pub mod jiffies;
pub mod kernel;
pub mod mix;
pub mod monotonic;
pub mod nearest;
pub mod op;
pub mod setting;
pub mod status;
pub mod units;

// The path of a bio: build, split, plug and merge, schedule, tag, dispatch, complete.
pub mod bio;
pub mod build;
pub mod control;
pub mod driver;
pub mod flush;
pub mod inject;
pub mod layout;
pub mod limits;
pub mod merge;
pub mod pool;
pub mod request;
pub mod sched;
pub mod split;
pub mod stack;
pub mod tags;
pub mod tenant;
mod treap;
pub mod tree;
mod wbt;

// Accounting, events and statistics.
pub mod account;
pub mod event;
pub mod histogram;
pub mod stats;

// What a caller of the stack names most.
pub use driver::{Accept, Command, Completion, Driver, Pieces};
pub use layout::Layout;
pub use limits::QueueLimits;
pub use sched::SchedulerConfig;
pub use stack::{Done, Io, Stack, StackConfig, Submitted};
pub use status::Status;
pub use units::{LayoutId, TenantId};
